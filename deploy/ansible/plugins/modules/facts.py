#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Returns what mpps did on a host as facts."""
from __future__ import annotations

DOCUMENTATION = r"""
module: facts
short_description: Return what mpps did on a host as facts
version_added: 0.1.0
description:
  - Returns the version of mpps, the state of the host and its transactions as facts. Writes nothing.
extends_documentation_fragment:
  - mpps.host.host
  - mpps.host.host.reads
"""

EXAMPLES = r"""
- name: Gather facts
  mpps.host.facts:
"""

RETURN = r"""
ansible_facts:
  description: The facts.
  returned: always
  type: dict
  contains:
    mpps:
      description: C(version), C(state), C(transactions), C(reboot_required) and C(guest_restarts).
      returned: always
      type: dict
"""

from ansible_collections.mpps.host.plugins.module_utils.mpps import ask, host_module, status, waits


def main():
    module = host_module()
    found = status(module)
    known = {"version": ask(module, "version")["version"], "state": found["state"],
             "transactions": [t["tx"] for t in found["transactions"]]}
    known.update(waits(found))
    module.exit_json(changed=False, ansible_facts={"mpps": known})


if __name__ == "__main__":
    main()
