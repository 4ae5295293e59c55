package initramfs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Modules holds the index files that depmod writes (modules.dep(5)).
type Modules struct {
	dir     string              // /lib/modules/RELEASE
	file    map[string]string   // name → path relative to dir
	needs   map[string][]string // name → names, in load order
	builtin map[string]bool
	aliases map[string][]string // name → patterns of modalias strings
}

// moduleName returns the kernel's spelling of a module's name.
func moduleName(s string) string {
	s = path.Base(s)
	for _, ext := range []string{".xz", ".gz", ".zst", ".ko"} {
		s = strings.TrimSuffix(s, ext)
	}
	return strings.ReplaceAll(s, "-", "_")
}

// ReadModules reads the index of a directory lib/modules/RELEASE.
func ReadModules(dir string) (*Modules, error) {
	t := &Modules{dir: dir, builtin: map[string]bool{}, aliases: map[string][]string{}}
	dep, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, err
	}
	t.file, t.needs = parseModulesDep(string(dep))
	built, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(built)) {
		t.builtin[moduleName(strings.TrimSpace(line))] = true
	}
	al, err := os.ReadFile(filepath.Join(dir, "modules.alias"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(al)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "alias" {
			n := moduleName(f[2])
			t.aliases[n] = append(t.aliases[n], f[1])
		}
	}
	return t, nil
}

// parseModulesDep reads lines "PATH: PATH...". The file lists dependencies in reverse load order; needs has them in
// load order.
func parseModulesDep(text string) (file map[string]string, needs map[string][]string) {
	file, needs = map[string]string{}, map[string][]string{}
	for line := range strings.Lines(text) {
		p, deps, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || p == "" {
			continue
		}
		n := moduleName(p)
		file[n] = p
		d := strings.Fields(deps)
		slices.Reverse(d)
		for i := range d {
			d[i] = moduleName(d[i])
		}
		needs[n] = d
	}
	return file, needs
}

// path returns the file of a module that is no built-in one.
func (t *Modules) path(name string) string { return filepath.Join(t.dir, t.file[name]) }

// Files returns the files to load for the named modules, each after those that it needs. The error is a *NoModule if
// there is neither such a file nor such a built-in module.
func (t *Modules) Files(names ...string) ([]string, error) {
	order, err := t.resolve(names)
	for i, name := range order {
		order[i] = t.path(name)
	}
	return order, err
}

// NoModule is the error for a module that a kernel does not have.
type NoModule struct{ Name, Dir string }

func (e *NoModule) Error() string {
	return fmt.Sprintf("module %s: neither a file nor built in, in %s", e.Name, e.Dir)
}

// resolve returns the modules to load for the named ones, each after its dependencies, without built-in ones.
func (t *Modules) resolve(names []string) ([]string, error) {
	var order []string
	add := func(n string) {
		if !slices.Contains(order, n) {
			order = append(order, n)
		}
	}
	for _, name := range names {
		n := moduleName(name)
		if t.builtin[n] {
			continue
		}
		if _, ok := t.file[n]; !ok {
			return nil, &NoModule{name, t.dir}
		}
		for _, d := range t.needs[n] {
			add(d)
		}
		add(n)
	}
	return order, nil
}
