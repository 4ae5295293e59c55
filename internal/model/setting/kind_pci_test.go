package setting

import "testing"

func TestDriver(t *testing.T) {
	for raw, want := range map[string]string{
		"igbvf": "igbvf", " vfio-pci\n": "vfio-pci", "none": "none",
		"vfio-pci  override:vfio-pci": "vfio-pci override:vfio-pci",
		"none override:mlx5_core":     "none override:mlx5_core",
		"":                            "", "a b": "", "override:x": "", "a override:": "", "../x": "",
		"a override:b override:c": "",
	} {
		got, err := Kinds[PCIDriver].Canonical(raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; expected %q", raw, got, err, want)
		}
		if err == nil {
			if back := DriverValue(Driver(got)); back != got {
				t.Errorf("%q comes back as %q", got, back)
			}
		}
	}
}
