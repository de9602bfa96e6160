"""A specification is read whole, or all that is wrong with it is said at once with path, line and what is allowed."""

import json
import re

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stepward.clusters.reading import MOST_PROBLEMS, read_spec, spec_of
from stepward.clusters.spec import ClusterSpec, node_names
from stepward.errors import UsageError


def problems(call, *arguments):
    with pytest.raises(UsageError) as caught:
        call(*arguments)
    assert caught.value.code == "bad_cluster_spec"
    return {one["path"]: one for one in caught.value.context["problems"]}


def test_yaml_and_json_say_the_same(whole):
    spec = spec_of(whole)
    assert read_spec(yaml.safe_dump(whole)) == spec
    assert read_spec(json.dumps(whole)) == spec
    assert read_spec(json.dumps(whole, indent="\t")) == spec
    assert spec_of(msgspec.to_builtins(spec)) == spec


def test_what_is_left_out_has_the_defaults_of_the_documentation():
    pool = {"id": "a", "max_nodes": 1, "shape": {"cpus": 1, "memory_mb": 100}}
    spec = spec_of({"display_name": "x", "node_pools": [pool], "partitions": [{"id": "p", "node_pools": ["a"]}]})
    assert (spec.provider, spec.controller.accounting, spec.controller.rest) == ("local", True, True)
    assert (spec.slurm.cred_expire_s, spec.slurm.slurmd_timeout_s) == (5, 30)
    assert (spec.health.policy, spec.health.dry_run) == ("default", False)
    assert (spec.restarts.policy, spec.restarts.dry_run) == ("off", False)
    assert spec.default_partition() == "p"
    assert node_names(spec.node_pools[0]) == ["a-0"]


def test_every_problem_is_told_at_once_with_its_line():
    text = """\
display_name: lab
provider: locl
node_pools:
  - id: GPU
    max_nodes: many
    shape:
      cpus: 0
      memory_mb: 64000
      gpu: 8
partitions:
  - {id: main, node_pools: [gpu], max_time: tomorrow}
slurm: {cred_expire_s: 2}
extra: 1
"""
    found = problems(read_spec, text)
    assert {path: one.get("line") for path, one in found.items()} == {
        "provider": 2,
        "node_pools[0].id": 4,
        "node_pools[0].max_nodes": 5,
        "node_pools[0].shape.cpus": 7,
        "node_pools[0].shape.gpu": 9,
        "partitions[0].max_time": 11,
        "slurm.cred_expire_s": 12,
        "extra": 13,
    }
    assert "local, ssh, plugin" in found["provider"]["message"]
    assert "from 1 to 4096" in found["node_pools[0].shape.cpus"]["message"]
    assert "cpus, memory_mb, gpus, gpu_type" in found["node_pools[0].shape.gpu"]["message"]


@pytest.mark.parametrize(
    ("bend", "path", "said"),
    [
        (lambda s: s.pop("display_name"), "display_name", "is missing"),
        (lambda s: s["node_pools"][0].pop("shape"), "node_pools[0].shape", "is missing"),
        (lambda s: s.update(node_pools=[]), "node_pools", "at least one pool"),
        (lambda s: s.update(partitions={}), "partitions", "is no list"),
        (lambda s: s["node_pools"][0].update(min_nodes=9), "node_pools[0].min_nodes", "more than max_nodes"),
        (lambda s: s["node_pools"][1].update(id="gpu"), "node_pools[1].id", "given twice"),
        (lambda s: s["node_pools"][1]["shape"].update(gpu_type="a100"), "node_pools[1].shape.gpu_type", "GPUs"),
        (lambda s: s["node_pools"][0].update(max_nodes=True), "node_pools[0].max_nodes", "true is not"),
        (lambda s: s["node_pools"][0].update(max_nodes=99), "node_pools", "more than the 64"),
        (lambda s: s["partitions"][1].update(node_pools=["tpu"]), "partitions[1].node_pools[0]", "gpu, cpu"),
        (lambda s: s["partitions"][1].update(node_pools=["gpu", "gpu"]), "partitions[1].node_pools[1]", "given twice"),
        (lambda s: s["partitions"][1].update(default=True), "partitions[1].default", "default already"),
        (lambda s: s.update(login={"node_pool": "login"}), "login.node_pool", "there are gpu, cpu"),
        (lambda s: s.update(login={"node_pool": "cpu"}), "partitions[1].node_pools[1]", "login pool"),
        (lambda s: s["storage"][0].update(kind="nfs"), "storage[0].source", "host:/path"),
        (lambda s: s["storage"][0].update(mount="tmp"), "storage[0].mount", "absolute path"),
        (lambda s: s["storage"].append(s["storage"][0]), "storage[1].mount", "given twice"),
        (lambda s: s["storage"][0]["expect"].update(read_mb_s=0), "storage[0].expect.read_mb_s", "above 0"),
        (lambda s: s.update(health=None), "health", "nothing is no mapping"),
        (lambda s: s.update(slurm=[5]), "slurm", "a list is no mapping"),
    ],
)
def test_what_does_not_fit_is_named(whole, bend, path, said):
    bend(whole)
    assert said in problems(spec_of, whole)[path]["message"]


def test_fields_of_other_providers_are_refused_by_name(whole):
    whole["node_pools"][0]["hosts"] = ["node[01-04]"]
    whole["plugin"] = "acme"
    found = problems(spec_of, whole)
    assert found["node_pools[0].hosts"]["message"] == "is a field of provider ssh, not of local"
    assert found["plugin"]["message"] == "is a field of provider plugin, not of local"
    whole["provider"] = "ssh"
    assert set(problems(spec_of, whole)) == {"plugin", "node_pools[1].hosts"}
    whole["provider"] = "plugin"
    assert set(problems(spec_of, whole)) == {"node_pools[0].hosts"}


@pytest.mark.parametrize(
    "text",
    ["", "- a", "a: [", "{", "\0", "a: &x [*x]", '{"a":\t1', "? {a: 1}\n: 2", "--- 1\n--- 2", "a: !!python/none x"],
)
def test_a_text_that_is_no_specification_is_refused(text):
    assert problems(read_spec, text)


def test_a_text_that_unfolds_without_end_is_refused():
    lines = [
        "a0: &a0 [x, x, x, x, x, x, x, x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 9)),
    ]
    assert "too many values" in problems(read_spec, "\n".join(lines))[""]["message"]
    assert "longer than" in problems(read_spec, "#" * (2 << 20))[""]["message"]


def test_a_key_that_is_given_twice_is_refused_where_it_is_given_again(whole):
    found = problems(read_spec, yaml.safe_dump(whole) + "display_name: other\n")
    assert found["display_name"]["message"] == "is given twice"


def test_a_time_limit_stays_the_text_that_was_written(whole):
    whole["partitions"][0]["max_time"] = "TIME"
    for written in ("12:00:00", "7-00:00:00", "90:00", "UNLIMITED"):
        spec = read_spec(yaml.safe_dump(whole).replace("TIME", written))
        assert spec.partitions[0].max_time == written


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ClusterSpec.__struct_fields__, "id", "shape", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_value_breaks_the_reader(value):
    try:
        spec_of(value)
    except UsageError as error:
        assert error.context["problems"] and all(one["message"] for one in error.context["problems"])


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text):
    with pytest.raises(UsageError):
        read_spec(text)


def leaves(value, path=""):
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from leaves(item, f"{path}[{place}]")
    else:
        yield path


def bent(value, path, wrong):
    """``value`` with ``wrong`` at a path."""
    if not path:
        return wrong
    head, rest = re.match(r"\.?(\w+)|\.?\[(\d+)\]", path), path
    rest = path[head.end() :]
    if head[1]:
        return {**value, head[1]: bent(value[head[1]], rest, wrong)}
    place = int(head[2])
    return [*value[:place], bent(value[place], rest, wrong), *value[place + 1 :]]


OPTIONAL = ("gpu_type", "zone", "rack", "mtu", "mb_s")


def test_a_value_that_fits_nowhere_is_refused_at_its_own_path(whole):
    paths = list(leaves(whole))
    assert len(paths) > 25
    for path in paths:
        for wrong in (None, {"x": 1}, [1], "", -1, 1e300):
            if (wrong is None and path.endswith(OPTIONAL)) or (wrong == 1e300 and path.endswith("mb_s")):
                continue
            assert path in problems(spec_of, bent(whole, path, wrong)), (path, wrong)


@pytest.mark.parametrize("name", ["lab\n", "a\x9b31m", "a\x7f", "a\u202eb", "a\ud800", "a\u2028b"])
def test_a_name_that_nobody_can_see_whole_is_refused(whole, name):
    whole["display_name"] = name
    assert list(problems(spec_of, whole)) == ["display_name"]


@pytest.mark.parametrize("limit", ["١٢", "9" * 20, "99999999-00:00:00", "0", "0-00:00:00", "12:00\n", ""])
def test_a_time_limit_that_slurm_would_not_take_or_not_count_is_refused(whole, limit):
    whole["partitions"][0]["max_time"] = limit
    assert list(problems(spec_of, whole)) == ["partitions[0].max_time"]


def test_a_partition_is_not_called_what_slurm_calls_all_of_them(whole):
    whole["partitions"][0]["id"] = "default"
    assert list(problems(spec_of, whole)) == ["partitions[0].id"]


@pytest.mark.parametrize("field", ["node_pools", "partitions", "storage"])
def test_a_list_without_measure_is_one_problem(whole, field):
    whole[field] = [0] * 100_000
    assert list(problems(spec_of, whole)) == [field]


def test_no_more_problems_are_told_than_somebody_reads(whole):
    found = problems(spec_of, whole | {f"field{number}": 0 for number in range(100_000)})
    assert len(found) == MOST_PROBLEMS


@pytest.mark.parametrize("tag", ["bool", "int", "float", "timestamp", "binary", "null", "seq", "map"])
def test_a_tag_that_lies_is_no_crash(tag):
    with pytest.raises(UsageError) as caught:
        read_spec(f"display_name: !!{tag} zz")
    assert caught.value.code == "bad_cluster_spec"
