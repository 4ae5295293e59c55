package facts

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"mpps/internal/model/domain"
	"mpps/internal/must"
)

// TestOwnerOf: a platform is found by the namespace of an element that it writes, and by nothing that anybody else can
// write into a definition.
func TestOwnerOf(t *testing.T) {
	const uuid = "30ad89ac-5906-49ca-8d52-3c6343c598f6"
	cloudStack := `<sysinfo type='smbios'><system><entry name='manufacturer'>Apache Software Foundation</entry>` +
		`<entry name='product'>CloudStack KVM Hypervisor</entry></system></sysinfo>`
	deep := strings.Repeat("<a>", 100) + `<zs:zstack xmlns:zs="http://zstack.org"/>` + strings.Repeat("</a>", 100)
	for what, c := range map[string]struct {
		name, inside string
		platform     Platform
		id           string
	}{
		"nothing": {"vm1", "", Libvirt, ""},
		"nova 1.0": {"instance-42", `<metadata><nova:instance ` +
			`xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.0"><nova:name>web</nova:name></nova:instance></metadata>`, Nova, uuid},
		"nova 1.1, another prefix": {"instance-42", `<metadata><n:instance ` +
			`xmlns:n="http://openstack.org/xmlns/libvirt/nova/1.1"/></metadata>`, Nova, uuid},
		"oVirt, declared further out": {"vm1", `<metadata xmlns:ovirt-vm="http://ovirt.org/vm/1.0"><ovirt-vm:vm>` +
			`<ovirt-vm:x/></ovirt-vm:vm></metadata>`, OVirt, uuid},
		"oVirt before 4.2, whose only element is that of its bounds": {"vm1", `<metadata><ovirt:qos ` +
			`xmlns:ovirt="http://ovirt.org/vm/tune/1.0"/></metadata>`, OVirt, uuid},
		"ZStack": {"30ad89ac590649ca8d523c6343c598f6", `<metadata><zs:zstack xmlns:zs="http://zstack.org">` +
			`<internalId>7</internalId></zs:zstack></metadata>`, ZStack, "30ad89ac590649ca8d523c6343c598f6"},
		"OpenNebula": {"one-42", `<metadata><one:vm xmlns:one="http://opennebula.org/xmlns/libvirt/1.0"/></metadata>`,
			OpenNebula, "42"},
		"OpenNebula, renamed": {"one-x", `<metadata><one:vm xmlns:one="http://opennebula.org/xmlns/libvirt/1.0"/>` +
			`</metadata>`, OpenNebula, ""},
		"KubeVirt, default namespace": {"default_web", `<metadata><kubevirt xmlns="http://kubevirt.io"><uid>u7</uid>` +
			`</kubevirt></metadata>`, KubeVirt, "default/web"},
		"KubeVirt, odd name": {"web", `<metadata><kubevirt xmlns="http://kubevirt.io"><uid>u7</uid></kubevirt>` +
			`</metadata>`, KubeVirt, "u7"},
		"CloudStack":       {"i-2-7-VM", cloudStack, CloudStack, uuid},
		"named like one":   {"zstack", "", Libvirt, ""},
		"one in its title": {"nova", `<title>http://zstack.org zstack</title>`, Libvirt, ""},
		"one in a comment": {"vm1", `<metadata><!-- <zs:zstack xmlns:zs="http://zstack.org"/> -->` +
			`</metadata>`, Libvirt, ""},
		"one in a text": {"vm1", `<metadata><a xmlns="urn:a">http://zstack.org` +
			`</a></metadata>`, Libvirt, ""},
		"one in CDATA": {"vm1", `<metadata><![CDATA[<zs:zstack xmlns:zs="http://zstack.org"/>]]>` +
			`</metadata>`, Libvirt, ""},
		"declared and not used": {"vm1", `<metadata xmlns:zs="http://zstack.org"><a/></metadata>`, Libvirt, ""},
		"another element of it": {"vm1", `<metadata><zs:note xmlns:zs="http://zstack.org"/>` +
			`</metadata>`, Libvirt, ""},
		"the prefix alone": {"vm1", `<metadata><zs:zstack xmlns:zs="urn:mine"/></metadata>`, Libvirt, ""},
		"a prefix that is declared": {"vm1", `<metadata xmlns:zs="http://zstack.org">` +
			`<zs:zstack xmlns:zs="urn:mine"/></metadata>`, Libvirt, ""},
		"a longer address": {"vm1", `<metadata><zs:zstack xmlns:zs="http://zstack.org.evil.example/"/>` +
			`</metadata>`, Libvirt, ""},
		"below another's": {"vm1", `<metadata><a xmlns="urn:a"><zs:zstack xmlns:zs="http://zstack.org"/>` +
			`</a></metadata>`, Libvirt, ""},
		"deep below another's": {"vm1", `<metadata>` + deep + `</metadata>`, Libvirt, ""},
		"not below metadata": {"vm1", `<devices><zs:zstack xmlns:zs="http://zstack.org"/>` +
			`</devices>`, Libvirt, ""},
	} {
		t.Run(what, func(t *testing.T) {
			text := fmt.Sprintf("<domain type='kvm'><name>%s</name><uuid>%s</uuid>%s</domain>", c.name, uuid, c.inside)
			doc := must.Get(domain.Parse([]byte(text)))(t)
			got := OwnerOf(doc.Guest())
			must.Hold(t, got.Platform == c.platform && got.ID == c.id &&
				(got.Evidence == "") == (c.platform == Libvirt), "expected %s %q, found %+v", c.platform, c.id, got)
		})
	}
}

// TestManyMarks: what is read of metadata is bounded, whatever stands there.
func TestManyMarks(t *testing.T) {
	var b strings.Builder
	b.WriteString("<domain><name>vm1</name><metadata>")
	for i := range 1000 {
		fmt.Fprintf(&b, `<m xmlns="urn:%d">`, i)
		for k := range 100 {
			fmt.Fprintf(&b, "<f%d>%s</f%d>", k, strings.Repeat("x", 10*k), k)
		}
		b.WriteString("</m>")
	}
	b.WriteString("</metadata></domain>")
	doc, err := domain.Parse([]byte(b.String()))
	if err != nil {
		t.Skipf("refused as a whole: %v", err)
	}
	g := doc.Guest()
	must.Hold(t, len(g.Marks) <= 64 && len(g.Marks[0].Fields) <= 32 && OwnerOf(g).Platform == Libvirt,
		"%d marks, the first of %d fields", len(g.Marks), len(g.Marks[0].Fields))
}

// TestOwnerInSnapshot: a snapshot has the owner, one of an earlier version gets it from the definition, and a made-up
// platform is refused.
func TestOwnerInSnapshot(t *testing.T) {
	const nova = `<domain type='kvm'><name>a</name><metadata>` +
		`<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"/></metadata></domain>`
	h := &Host{Guests: []Guest{{Name: "a", Managed: true, Definition: nova}, {Name: "b", Owner: ProxmoxOwner("101")},
		{Name: "c", Owner: &Owner{Platform: KubeVirt, ID: "shop/web", Evidence: "x"}}}}
	read := func(h *Host) (*Host, error) {
		var b bytes.Buffer
		must.Do(t, Write(&b, h, "1"))
		return ReadSnapshot(&b)
	}
	got := must.Get(read(h))(t)
	must.Hold(t, got.Guests[0].Rewrites() && got.Guests[0].Platform() == Nova && got.Guests[1].Owner.ID == "101",
		"%+v, %+v", got.Guests[0].Owner, got.Guests[1].Owner)
	if c := Scrub(got); c.Guests[1].Owner.ID != "101" || strings.Contains(c.Guests[2].Owner.ID, "shop") ||
		strings.Contains(c.Guests[2].Owner.ID, "web") || c.Guests[0].Platform() != Nova {
		t.Errorf("scrubbed: %+v %+v %+v", c.Guests[0].Owner, c.Guests[1].Owner, c.Guests[2].Owner)
	}
	h.Guests[1].Owner = &Owner{Platform: "vmware\x1b[2J"}
	must.Fail(read(h))(t, "a platform that does not exist was accepted")
}
