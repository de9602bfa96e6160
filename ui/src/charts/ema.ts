/** Smoothing as TensorBoard defines it: a debiased exponential moving average that NaN does not poison. Pure. */

/**
 * Smooth bucket means. A bucket of n points counts as n updates with its mean, so that a line looks the same whatever
 * resolution it was fetched at; with one point a bucket this is TensorBoard's formula. Buckets without a finite value
 * stay empty and leave the average alone.
 *
 * @param weight of the past, 0 (none) to below 1.
 */
export function smooth(means: readonly (number | null)[], counts: readonly number[], weight: number): (number | null)[] {
  let average = 0;
  let updates = 0;
  return means.map((mean, i) => {
    if (mean === null || !Number.isFinite(mean)) return null;
    const points = Math.max(1, counts[i] ?? 1);
    const kept = weight ** points;
    average = average * kept + mean * (1 - kept);
    updates += points;
    return average / (1 - weight ** updates);
  });
}
