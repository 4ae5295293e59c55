package layers

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// proseNames are the names of what holds words for people.
var proseNames = []string{"why", "because", "reason", "hint", "title", "warning", "caveat"}

// comparers are the functions of package strings that look for words.
var comparers = []string{"HasPrefix", "HasSuffix", "Contains", "EqualFold", "Index", "CutPrefix", "CutSuffix"}

// foreignTitles are packages in which a title or a reason is the kernel's or a boot loader's own.
var foreignTitles = []string{"machine/boot", "bottleneck"}

// readsProse refuses decisions by the words of a reason, a title, a hint or an error: what is looked for in them, and
// what they are compared with, besides nothing, and each other where equal ones are shown together. A Reason may be a
// type.
func readsProse(s *source) []string {
	const why = "no decision depends on words for people: carry it in a typed field"
	if s.pkg == "change/journal" && filepath.Base(s.name) == "reason.go" {
		return nil // what old journals say in words only
	}
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			of, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) == 0 || !slices.Contains(comparers, of.Sel.Name) {
				break
			}
			if x, ok := of.X.(*ast.Ident); ok && s.imports[x.Name] == "strings" && prose(s.pkg, n.Args[0]) != "" {
				found = append(found, s.at(n, "strings."+of.Sel.Name+" on "+prose(s.pkg, n.Args[0]), why))
			}
		case *ast.BinaryExpr:
			if n.Op != token.EQL && n.Op != token.NEQ {
				break
			}
			for _, side := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
				name := prose(s.pkg, side[0])
				if name != "" && name != "reason" && name != prose(s.pkg, side[1]) && !isEmpty(side[1]) {
					found = append(found, s.at(n, name+" "+n.Op.String(), why))
				}
			}
		}
		return true
	})
	return found
}

// prose is the name of an expression that holds words for people; empty of any other.
func prose(pkg string, e ast.Expr) string {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.CallExpr:
		if of, ok := e.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "Error" && len(e.Args) == 0 {
			return "Error()"
		}
	}
	if name = strings.ToLower(name); !slices.Contains(proseNames,
		name) || name != "why" && slices.Contains(foreignTitles, pkg) {
		return ""
	}
	return name
}

func isEmpty(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && (lit.Value == `""` || lit.Value == "``") || isName(e, "nil")
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
