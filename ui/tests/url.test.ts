import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AXES, CERTAINTIES, decode, encode, eventPlace, eventsPlace, JOB_SPANS, JOB_STATES, jobsPlace, nodePlace, type Place, runPlace, runsPlace, SEVERITIES, SPANS, SPLITS, TABS, TREES } from "../src/state/url";

const back = (place: Place): Place => {
  const url = new URL(encode(place), "http://host/");
  return decode(url.pathname.slice(1), url.search);
};

const words = fc.string({ unit: "grapheme", maxLength: 40 });
// A path can't hold a segment of dots: browsers resolve it. Run ids and sensible names are none.
const name = words.filter((text) => text.trim() !== "" && !/^\.+$/.test(text));
const finite = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (Object.is(value, -0) ? 0 : value));

const runs = fc
  .record({ project: words, filter: words, sort: name, columns: fc.array(words, { maxLength: 5 }) })
  .map((fields) => runsPlace(fields));
const run = fc
  .record({
    run: name,
    tab: fc.constantFrom(...TABS),
    x: fc.constantFrom("auto" as const, ...AXES),
    from: fc.option(finite),
    to: fc.option(finite),
    smooth: fc.double({ min: 0, max: 0.999, noNaN: true }).map((value) => value + 0),
    log: fc.boolean(),
    band: fc.boolean(),
    marks: fc.boolean(),
    type: words,
    certainty: fc.constantFrom(...CERTAINTIES),
    severity: fc.constantFrom(...SEVERITIES),
    by: fc.constantFrom(...SPLITS),
    match: words,
    pin: fc.array(words, { maxLength: 4 }),
    card: words,
    stream: words,
    line: fc.option(fc.integer({ min: 1 })),
    find: words,
    follow: fc.boolean(),
    clock: fc.boolean(),
    tree: fc.constantFrom(...TREES),
    leaf: words,
    past: fc.boolean(),
    window: fc.constantFrom("all" as const, "24h" as const, "1h" as const),
  })
  .map(({ run, ...fields }) => runPlace(run, fields));

// What an address bar can hold: the browser has resolved dots already.
const paths = fc.webPath().map((path) => new URL(`http://host${path}`).pathname);

describe("the codec of places", () => {
  it("restores every list of runs", () => fc.assert(fc.property(runs, (place) => void expect(back(place)).toEqual(place))));
  it("restores every view of a run", () => fc.assert(fc.property(run, (place) => void expect(back(place)).toEqual(place))));

  it("restores every list of events, and every event", () => {
    const choice = { project: words, since: fc.constantFrom(...SPANS), type: words, certainty: fc.constantFrom(...CERTAINTIES), severity: fc.constantFrom(...SEVERITIES) };
    fc.assert(fc.property(fc.record(choice), (fields) => void expect(back(eventsPlace(fields))).toEqual(eventsPlace(fields))));
    fc.assert(fc.property(name, fc.option(name), (run, event) => void expect(back(eventPlace(run, event))).toEqual(eventPlace(run, event))));
  });

  it("restores every place of a cluster", () => {
    const choice = { state: fc.constantFrom(...JOB_STATES), user: words, partition: words, name: words, since: fc.constantFrom(...JOB_SPANS) };
    fc.assert(fc.property(name, fc.record(choice), (cluster, fields) => void expect(back(jobsPlace(cluster, fields))).toEqual(jobsPlace(cluster, fields))));
    fc.assert(
      fc.property(name, name, (cluster, one) => {
        for (const place of [{ view: "clusters" }, { view: "cluster", cluster }, { view: "job", cluster, job: one }, nodePlace(cluster, one)] as const) expect(back(place)).toEqual(place);
      }),
    );
    expect(encode({ view: "job", cluster: "lab", job: "42_[1-9%2]" })).toBe("clusters/lab/jobs/42_%5B1-9%252%5D");
    expect(decode("clusters/lab/nodes", "")).toEqual({ view: "missing", path: "clusters/lab/nodes" });
  });

  it("reads any query without failing, and is settled after one reading", () =>
    fc.assert(
      fc.property(paths, fc.webQueryParameters(), (path, query) => {
        const place = decode(path.replace(/^\/+/, ""), query);
        expect(back(place)).toEqual(place);
      }),
    ));

  it("leaves defaults out of the address", () => {
    expect(encode(runsPlace())).toBe("runs");
    expect(encode(runPlace("run_1"))).toBe("runs/run_1");
    expect(encode(runPlace("run_1", { tab: "logs", line: 12 }))).toBe("runs/run_1/logs?line=12");
    expect(encode(runPlace("a/b c", { smooth: 0.6, pin: ["loss", "val/loss"] }))).toBe("runs/a%2Fb%20c?smooth=0.6&pin=loss&pin=val%2Floss");
  });

  it("opens the runs at the bare address and says what it does not know", () => {
    expect(decode("", "")).toEqual(runsPlace());
    expect(decode("settings", "")).toEqual({ view: "settings" });
    expect(decode("models/x", "")).toEqual({ view: "missing", path: "models/x" });
    expect(decode("runs/r/nonsense", "")).toEqual({ view: "missing", path: "runs/r/nonsense" });
  });

  it("takes the default for what it can't read", () => {
    expect(decode("runs/r", "?smooth=7&x=parsec&from=abc&log=yes&by=&line=-3")).toEqual(runPlace("r"));
  });
});
