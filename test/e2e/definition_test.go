//go:build lab

package e2e

import "encoding/xml"

// libvirtDomain is of a definition what the tests ask for.
type libvirtDomain struct {
	Interfaces []struct {
		Target struct {
			Dev string `xml:"dev,attr"`
		} `xml:"target"`
		Model struct {
			Type string `xml:"type,attr"`
		} `xml:"model"`
		Driver struct {
			Attributes []xml.Attr `xml:",any,attr"`
		} `xml:"driver"`
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
