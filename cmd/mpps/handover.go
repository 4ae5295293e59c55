package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"mpps/internal/ops/handing"
	"mpps/internal/report"
)

func (a *app) handoverCommand() *cobra.Command {
	var flags goalFlags
	var ask handing.Request
	cmd := verb("handover", "say in a platform's own words what to set there", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) (err error) {
			if ask.Goal, err = flags.goal(); err != nil {
				return err
			}
			found, err := handing.Words(cmd.Context(), a.env(), ask)
			if err != nil {
				return err
			}
			if a.format == "yaml" {
				text, err := asYAML(found)
				if err != nil {
					return err
				}
				return a.out.Raw(text, found.Warnings)
			}
			return a.out.Answer(report.Answer{
				Verb: "handover", Host: found.Host.Name, Result: found, Warnings: found.Warnings,
				Text: func(t *report.Text) {
					t.WrapIf(ask.Goal.Unnamed, "", "%s", ask.Goal.Why())
					report.Handover(t, found.Guests)
				},
			})
		})
	flags.add(cmd, a)
	cmd.Flags().StringVar(&ask.Snapshot, "snapshot", "", "use this snapshot file instead of this host")
	cmd.Flags().String("format", "text", "output format: text, json or yaml")
	cmd.Flags().Lookup("format").Annotations = map[string][]string{formatAllowed: {"text", "json", "yaml"}}
	return cmd
}

// asYAML returns a result as YAML, with the names that it has in JSON.
func asYAML(result any) ([]byte, error) {
	text, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	blocks(&document)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return b.Bytes(), nil
}

// blocks takes the style of JSON from a document.
func blocks(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		blocks(child)
	}
}
