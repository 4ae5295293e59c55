//go:build lab

package e2e

import (
	"encoding/xml"
	"strings"

	"mpps/internal/setting"
)

// libvirtDomain is of a definition what the tests ask for.
type libvirtDomain struct {
	VCPUPins []struct {
		VCPU   string `xml:"vcpu,attr"`
		CPUSet string `xml:"cpuset,attr"`
	} `xml:"cputune>vcpupin"`
	EmulatorPin *struct {
		CPUSet string `xml:"cpuset,attr"`
	} `xml:"cputune>emulatorpin"`
	Memory *struct {
		Nodeset string `xml:"nodeset,attr"`
		Mode    string `xml:"mode,attr"`
	} `xml:"numatune>memory"`
	Interfaces []struct {
		MAC struct {
			Address string `xml:"address,attr"`
		} `xml:"mac"`
		Target struct {
			Dev string `xml:"dev,attr"`
		} `xml:"target"`
		Model struct {
			Type string `xml:"type,attr"`
		} `xml:"model"`
		Driver struct {
			Attributes []xml.Attr `xml:",any,attr"`
		} `xml:"driver"`
		Coalesce struct {
			Max string `xml:"max,attr"`
		} `xml:"coalesce>rx>frames"`
	} `xml:"devices>interface"`
}

func readDefinition(b *box, text string) libvirtDomain {
	b.Helper()
	var d libvirtDomain
	if err := xml.Unmarshal([]byte(text), &d); err != nil {
		b.Fatalf("virsh dumpxml: %v\n%.400s", err, text)
	}
	return d
}

// definition is what stands at a path of the guest's definition.
func definition(b *box, text, path string) (string, bool) {
	b.Helper()
	d := readDefinition(b, text)
	elements := strings.Split(path, "/")
	switch elements[0] {
	case "vcpupin":
		for _, p := range d.VCPUPins {
			if p.VCPU == elements[1] {
				return list(b, p.CPUSet), true
			}
		}
		return "", false
	case "emulatorpin":
		if d.EmulatorPin == nil {
			return "", false
		}
		return list(b, d.EmulatorPin.CPUSet), true
	case "numatune":
		if d.Memory == nil {
			return "", false
		}
		value := map[string]string{"memory.nodeset": d.Memory.Nodeset, "memory.mode": d.Memory.Mode}[elements[1]]
		return value, value != ""
	case "interface":
		for _, nic := range d.Interfaces {
			if nic.MAC.Address != elements[1] {
				continue
			}
			switch what, attribute, _ := strings.Cut(elements[2], "."); what {
			case "model":
				return nic.Model.Type, nic.Model.Type != ""
			case "coalesce":
				return nic.Coalesce.Max, nic.Coalesce.Max != ""
			case "driver":
				for _, a := range nic.Driver.Attributes {
					if a.Name.Local == attribute {
						return a.Value, true
					}
				}
				return "", false
			}
		}
	}
	b.Fatalf("definition: %s is not a path that these tests read", path)
	return "", false
}

// list is a list of CPUs in order.
func list(b *box, text string) string {
	b.Helper()
	set, err := setting.ParseCPUs(text)
	if err != nil {
		b.Fatal(err)
	}
	return set.String()
}
