package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/must"
)

// source is one file that is no test.
type source struct {
	name, pkg string // pkg is relative to internal/, or cmd/NAME, docs/NAME or tools/NAME
	set       *token.FileSet
	file      *ast.File
	imports   map[string]string // name in the file → path
}

// parse reads one file. Build tags do not count: a rule holds for every architecture.
func parse(name, pkg string, text any) (*source, error) {
	s := &source{name: name, pkg: pkg, set: token.NewFileSet(), imports: map[string]string{}}
	file, err := parser.ParseFile(s.set, name, text, 0)
	if err != nil {
		return nil, err
	}
	s.file = file
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		local := path[strings.LastIndexByte(path, '/')+1:]
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "." || local == "_" {
			local += path // cannot be asked for by a name, and two may have the same
		}
		s.imports[local] = path
	}
	return s, nil
}

// tree reads every file below internal/, cmd/, docs/ and tools/ that is no test.
func tree(t *testing.T) []*source {
	t.Helper()
	var all []*source
	for _, top := range []string{"internal", "cmd", "docs", "tools"} {
		root := filepath.Join("..", "..")
		must.Do(t, filepath.WalkDir(filepath.Join(root, top), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			pkg, err := filepath.Rel(root, filepath.Dir(name))
			if err != nil {
				return err
			}
			s, err := parse(name, strings.TrimPrefix(filepath.ToSlash(pkg), "internal/"), nil)
			all = append(all, s)
			return err
		}))
	}
	must.Need(t, len(all) >= 100, "found %d files, expected the whole tree", len(all))
	return all
}

// rule tells what a file has that it must not have.
type rule func(*source) []string

// pointsOneWay refuses an import that is not in the table of layers, and a package that has no row there.
func pointsOneWay(s *source) []string {
	allowed, listed := imports[s.pkg]
	if !listed {
		return []string{"package " + s.pkg + " is not in the table of layers"}
	}
	var found []string
	for _, path := range s.imports {
		inner, ours := strings.CutPrefix(path, "mpps/")
		inner = strings.TrimPrefix(inner, "internal/")
		switch {
		case strings.HasPrefix(inner, "cmd/") && ours:
			found = append(found, "nothing imports a command")
		case ours && slices.Contains(allowed, everything):
			if inner == "lab" || strings.HasPrefix(inner, "lab/") {
				found = append(found, "package "+s.pkg+" must not import "+inner)
			}
		case ours && !slices.Contains(allowed, inner):
			found = append(found, "package "+s.pkg+" must not import "+inner)
		}
	}
	if s.pkg == "cmd/mpps" {
		for _, path := range s.imports {
			inner := strings.TrimPrefix(path, "mpps/internal/")
			if slices.ContainsFunc(work, func(w string) bool { return inner == w || strings.HasPrefix(inner, w+"/") }) {
				found = append(found, "package "+s.pkg+" must not import "+inner+": what a verb does is in ops")
			}
		}
	}
	return found
}

// startsPrograms refuses what starts a program outside the packages that may.
func startsPrograms(s *source) []string {
	if slices.Contains(programs, s.pkg) {
		return nil
	}
	why := "only " + strings.Join(programs, ", ") + " may start programs"
	var found []string
	for _, path := range s.imports {
		if path == "os/exec" {
			found = append(found, "import of os/exec: "+why)
		}
	}
	return append(found, s.uses(why, func(path, name string) bool {
		switch path {
		case "os/exec":
			return strings.HasPrefix(name, "Command")
		case "os":
			return name == "StartProcess"
		case "syscall", "golang.org/x/sys/unix":
			return name == "ForkExec" || name == "Exec" || name == "StartProcess"
		}
		return false
	})...)
}

// endsPrograms refuses what starts an exec.Cmd other than by owned: the program would outlive mpps.
func endsPrograms(s *source) []string {
	file := s.pkg + "/" + filepath.Base(s.name)
	if s.pkg == "owned" || outliving[s.pkg]+outliving[file] != "" ||
		!slices.Contains(slices.Collect(maps.Values(s.imports)), "os/exec") {
		return nil
	}
	var found []string
	others := map[ast.Expr]bool{} // an exec.Cmd's take no arguments
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
			others[call.Fun] = true
		}
		e, ok := n.(*ast.SelectorExpr)
		if !ok || others[e] || !slices.Contains([]string{"Start", "Run", "Output", "CombinedOutput"}, e.Sel.Name) {
			return true
		}
		if of, ok := e.X.(*ast.Ident); !ok || of.Obj != nil || s.imports[of.Name] == "" {
			found = append(found, s.at(n, e.Sel.Name, "a program is started by owned, so that it ends with mpps"))
		}
		return true
	})
	return found
}

// prints refuses what writes to the standard streams outside the packages that may.
func prints(s *source) []string {
	if slices.Contains(printers, s.pkg) || strings.HasPrefix(s.pkg, "cmd/") && filepath.Base(s.name) == "main.go" {
		return nil
	}
	why := "packages return values and errors; only report prints"
	var found []string
	for _, path := range s.imports {
		if path == "log" || path == "log/slog" {
			found = append(found, "import of "+path+": "+why)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok && name.Obj == nil &&
				(name.Name == "print" || name.Name == "println") {
				found = append(found, s.at(n, "built-in "+name.Name, why))
			}
		}
		return true
	})
	return append(found, s.uses(why, func(path, name string) bool {
		switch path {
		case "fmt":
			return name == "Print" || name == "Printf" || name == "Println"
		case "os":
			return name == "Stdout" || name == "Stderr"
		}
		return false
	})...)
}

// leavesThreads refuses what locks a thread and leaves its end to the runtime, which parks the first thread of the
// process as it is: thread.Go never has that one.
func leavesThreads(s *source) []string {
	if s.pkg == "thread" {
		return nil
	}
	is := func(want string) func(path, name string) bool {
		return func(path, name string) bool { return path == "runtime" && name == want }
	}
	if len(s.uses("", is("UnlockOSThread"))) > 0 {
		return nil
	}
	return s.uses("a thread that ends with its function is thread.Go's", is("LockOSThread"))
}

// identities are the files below /proc/PID that a process chooses, or that tell what it runs.
var identities = []string{"comm", "cmdline", "exe"}

// ownFiles have such a name, and are the kernel's command line or this program.
var ownFiles = []string{"proc/cmdline", "etc/kernel/cmdline", "proc/self/exe"}

// knowsProcesses refuses code that reads a process's name, command line or program, except in the package that verifies
// them. Pure packages read nothing.
func knowsProcesses(s *source) []string {
	top, _, _ := strings.Cut(s.pkg, "/")
	if !slices.Contains([]string{"machine", "change", "measure", "ops", "cmd"}, top) || s.pkg == "machine/trust" ||
		slices.Contains(ofGuests, s.pkg) {
		return nil
	}
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text := literal(e)
		base := text[strings.LastIndexByte(text, '/')+1:]
		if slices.Contains(identities, base) && !slices.Contains(ownFiles, strings.TrimPrefix(text, "/")) {
			found = append(found, s.at(n, text, "a process chooses its name: machine/trust tells which one it is"))
		}
		return true
	})
	return found
}

// shells refuses a shell's name followed by -c, as arguments of a call or in a list, outside lab.
func shells(s *source) []string {
	if s.pkg == "lab" {
		return nil
	}
	var found []string
	look := func(list []ast.Expr) {
		for i := 1; i < len(list); i++ {
			shell, option := literal(list[i-1]), literal(list[i])
			base := shell[strings.LastIndexByte(shell, '/')+1:]
			if slices.Contains([]string{"sh", "bash", "dash"}, base) && strings.HasPrefix(option, "-") &&
				strings.HasSuffix(option, "c") {
				found = append(found, s.at(list[i], shell+" "+option, "programs are started by their argument vector"))
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			look(n.Args)
		case *ast.CompositeLit:
			look(n.Elts)
		}
		return true
	})
	return found
}

func literal(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if text, err := strconv.Unquote(lit.Value); err == nil {
			return text
		}
	}
	return ""
}

// uses finds the names of other packages that are forbidden: under whichever name the package was imported, called or
// handed on. A package with such names must not be imported with a dot, or they look like our own.
func (s *source) uses(why string, forbidden func(path, name string) bool) []string {
	var found []string
	for _, path := range []string{"fmt", "os", "os/exec", "syscall", "golang.org/x/sys/unix"} {
		if _, dotted := s.imports["."+path]; dotted {
			found = append(found, "import of "+path+" with a dot hides what is used of it")
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, ok := selector.X.(*ast.Ident)
		if !ok || of.Obj != nil { // a variable that bears a package's name
			return true
		}
		if path, imported := s.imports[of.Name]; imported && forbidden(path, selector.Sel.Name) {
			found = append(found, s.at(n, path+"."+selector.Sel.Name, why))
		}
		return true
	})
	return found
}

func (s *source) at(n ast.Node, what, why string) string {
	return fmt.Sprintf("line %d: %s: %s", s.set.Position(n.Pos()).Line, what, why)
}
