package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// sriovNamespace is that of the SR-IOV network operator (config/crd/bases/
// sriovnetwork.openshift.io_sriovnetworknodepolicies.yaml has the fields).
const sriovNamespace = "sriov-network-operator"

type sriovSpec struct {
	ResourceName      string            `yaml:"resourceName"`
	NodeSelector      map[string]string `yaml:"nodeSelector"`
	Priority          int               `yaml:"priority"`
	NumVFs            int               `yaml:"numVfs"`
	ExternallyManaged bool              `yaml:"externallyManaged"`
	NICSelector       nicSelector       `yaml:"nicSelector"`
	DeviceType        string            `yaml:"deviceType"`
	LinkType          string            `yaml:"linkType"`
}

type nicSelector struct {
	PFNames     []string `yaml:"pfNames"`
	RootDevices []string `yaml:"rootDevices,omitempty"`
}

// SRIOVPolicy returns policies for the virtual functions that a host has now: they stay as mpps made them
// (externallyManaged), and the operator gives them out. Functions that a guest or the host itself uses are left out.
func SRIOVPolicy(h *facts.Host, version, label string) (*Export, error) {
	e := &Export{Target: "the SR-IOV network operator", File: "sriov-policy.yaml", NotHeld: []Left{}}
	key, value := labelOf(label, h.Name)
	var objects []object
	for _, nic := range h.NICs {
		if nic.SRIOV == nil || nic.SRIOV.Enabled == 0 {
			continue
		}
		groups := map[string][]int{}
		for _, vf := range h.VFs {
			if vf.PF != nic.Name {
				continue
			}
			if use := usedBy(vf); use != "" {
				e.NotHeld = append(e.NotHeld, Left{What: fmt.Sprintf("function %d of %s", vf.Index, nic.Name),
					Why: use})
				continue
			}
			kind := words.Either(vf.Driver == "vfio-pci", vf.Driver, "netdevice")
			groups[kind] = append(groups[kind], vf.Index)
			e.NotHeld = append(e.NotHeld, attributes(vf)...)
		}
		for _, kind := range []string{"netdevice", "vfio-pci"} {
			for _, run := range runs(groups[kind]) {
				spec := sriovSpec{ResourceName: resourceName(nic.Name, kind), Priority: 50, ExternallyManaged: true,
					NodeSelector: map[string]string{key: value}, NumVFs: nic.SRIOV.Enabled, DeviceType: kind,
					LinkType: "eth"}
				spec.NICSelector.PFNames = []string{fmt.Sprintf("%s#%d-%d", nic.Name, run[0], run[1])}
				if nic.PCI != "" {
					spec.NICSelector.RootDevices = []string{nic.PCI}
				}
				objects = append(objects, object{"sriovnetwork.openshift.io/v1", "SriovNetworkNodePolicy", metadata{
					Name:      nameOf(fmt.Sprintf("mpps-%s-%s-%d", nic.Name, kind, run[0])),
					Namespace: sriovNamespace}, spec})
			}
		}
	}
	var err error
	e.Text, err = documents(comments(version, h.Name, e.Target, e.NotHeld), objects...)
	return e, err
}

// usedBy returns who uses a function; empty: nobody.
func usedBy(vf facts.VF) string {
	switch {
	case vf.Guest != "":
		return "guest " + vf.Guest + " has it"
	case vf.HostUse != "":
		return "the host uses it: " + vf.HostUse
	case vf.Holder != "" && !vf.Elsewhere:
		return vf.Holder + " has it"
	}
	return ""
}

// attributes returns what a function has that a policy has no field for; a network of the operator (SriovNetwork) sets
// it for its pods.
func attributes(vf facts.VF) (left []Left) {
	const why = "a policy has no field for it; the fields of a SriovNetwork set it for each pod"
	var all []string
	if vf.VLAN != 0 {
		all = append(all, "vlan "+strconv.Itoa(vf.VLAN))
	}
	if vf.Trust {
		all = append(all, "trust on")
	}
	if vf.MaxTxRate > 0 {
		all = append(all, "max_tx_rate "+strconv.Itoa(vf.MaxTxRate))
	}
	if len(all) == 0 {
		return nil
	}
	return []Left{{What: fmt.Sprintf("%s of function %d of %s", strings.Join(all, ", "), vf.Index, vf.PF), Why: why}}
}

// runs returns the first and last of each run of consecutive numbers.
func runs(numbers []int) (all [][2]int) {
	slices.Sort(numbers)
	for _, n := range numbers {
		if last := len(all) - 1; last >= 0 && all[last][1] == n-1 {
			all[last][1] = n
			continue
		}
		all = append(all, [2]int{n, n})
	}
	return all
}

// resourceName returns a name of letters, digits and underscores, which the operator's webhook demands (pkg/webhook,
// validateSriovNetworkNodePolicy).
func resourceName(nic, kind string) string {
	return strings.ReplaceAll(nameOf("mpps-"+nic+"-"+strings.TrimSuffix(kind, "-pci")), "-", "_")
}
