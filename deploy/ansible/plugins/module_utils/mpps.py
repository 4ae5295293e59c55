# SPDX-License-Identifier: Apache-2.0
"""Runs mpps, and reads its answers."""
from __future__ import annotations

import json

from ansible.module_utils.basic import AnsibleModule

# How mpps spells what a value waits for; it never changes these.
REBOOT = "reboot of the host"
GUEST = "restart of guest "

DRIFTED = 4
NOT_CONFIGURED = 3
LOCKED = 11


def host_module(**options):
    """Returns the module, with the options that all modules have."""
    options["executable"] = {"type": "str", "default": "mpps"}
    return AnsibleModule(argument_spec=options, supports_check_mode=True)


def ask(module, *words, codes=()):
    """Runs mpps with these words, without a shell, and returns its answer. codes are exit codes other than 0 of answers.

    A name that mpps or a playbook gives stands after "--": one that begins with a dash is no option.
    """
    argv = [module.params["executable"], "--json", *words]
    code, out, err = module.run_command(argv)
    try:
        answer = json.loads(out)
    except ValueError:
        answer = None
    if answer is None or code != 0 and code not in codes:
        problem = err.strip().splitlines() or ["no answer"]
        said = [line for line in problem if line.startswith(("mpps: error: ", "hint: "))]
        module.fail_json(msg="; ".join(said or problem[-1:]), rc=code, cmd=argv, stderr=err, answer=answer)
    for warning in answer["warnings"]:
        module.warn("; ".join(filter(None, [warning["text"], warning["hint"]])))
    return answer["result"]


def status(module):
    """Returns what is applied and how it compares now, whatever state that is."""
    return ask(module, "verify", codes=(1, 2, NOT_CONFIGURED, DRIFTED, LOCKED))


def waits(found, changes=()):
    """Returns whether values wait for a reboot, and the guests whose restart values wait for."""
    needs = {wait["for"] for wait in (found.get("remains") or {}).get("waits", [])}
    needs |= {change["needs"] for change in changes if change.get("needs")}
    return {
        "reboot_required": REBOOT in needs,
        "guest_restarts": sorted(n[len(GUEST):] for n in needs if n.startswith(GUEST)),
    }


def diff(changes):
    """Returns the changes as Ansible shows differences."""
    def lines(side):
        return "".join("%s = %s\n" % (c["address"], c[side]) for c in changes)
    return {"before": lines("from"), "after": lines("to")}
