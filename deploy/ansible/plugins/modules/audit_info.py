#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Lists what limits the goal of a host."""
from __future__ import annotations

DOCUMENTATION = r"""
module: audit_info
short_description: List the settings that limit the goal of a host
version_added: 0.1.0
description:
  - Returns the settings that limit the goal, worst first. Writes nothing.
extends_documentation_fragment:
  - mpps.host.host
  - mpps.host.host.reads
options:
  fail_on:
    description: Fail if a finding has this severity or worse, or if guests could not be seen.
    type: str
    choices: [info, low, medium, high, critical]
"""

EXAMPLES = r"""
- name: Fail on what limits the goal badly
  mpps.host.audit_info:
    fail_on: high
"""

RETURN = r"""
verdict:
  description: The audit in one sentence.
  returned: always
  type: str
findings:
  description: The settings that are not as the goal wants them, worst first.
  returned: always
  type: list
  elements: dict
coverage:
  description: How much of the host could be judged.
  returned: always
  type: dict
goal:
  description: The goal that the host was judged for.
  returned: always
  type: dict
"""

from ansible_collections.mpps.host.plugins.module_utils.mpps import DRIFTED, ask, host_module

SEVERITIES = ["info", "low", "medium", "high", "critical"]


def main():
    module = host_module(fail_on={"type": "str", "choices": SEVERITIES})
    words = ["audit"]
    if module.params["fail_on"]:
        words += ["--fail-on", module.params["fail_on"]]
    report = ask(module, *words, codes=(DRIFTED,))
    result = {
        "changed": False, "verdict": report["verdict"], "coverage": report["coverage"], "goal": report["goal"],
        "findings": [f for f in report["findings"] if f["state"] == "off"],
    }
    bad = SEVERITIES[SEVERITIES.index(module.params["fail_on"]):] if module.params["fail_on"] else []
    if bad and (report["coverage"]["unseen"] or any(f["severity"] in bad for f in result["findings"])):
        module.fail_json(msg=report["verdict"], **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
