package kube

// The parts of a DaemonSet (k8s.io/api/apps/v1, core/v1) that are said here.
type (
	daemonSetSpec struct {
		Selector selector `yaml:"selector"`
		Template template `yaml:"template"`
	}
	selector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	template struct {
		Metadata metadata `yaml:"metadata"`
		Spec     podSpec  `yaml:"spec"`
	}
	podSpec struct {
		NodeSelector   map[string]string `yaml:"nodeSelector,omitempty"`
		HostPID        bool              `yaml:"hostPID"`
		HostNetwork    bool              `yaml:"hostNetwork"`
		AutomountToken bool              `yaml:"automountServiceAccountToken"`
		Containers     []container       `yaml:"containers"`
		Volumes        []volume          `yaml:"volumes"`
	}
	container struct {
		Name      string    `yaml:"name"`
		Image     string    `yaml:"image"`
		Command   []string  `yaml:"command"`
		Security  security  `yaml:"securityContext"`
		Resources resources `yaml:"resources"`
		Mounts    []mount   `yaml:"volumeMounts"`
	}
	security struct {
		Privileged bool `yaml:"privileged"`
		ReadOnly   bool `yaml:"readOnlyRootFilesystem"`
	}
	resources struct {
		Limits map[string]string `yaml:"limits"`
	}
	mount struct {
		Name        string `yaml:"name"`
		MountPath   string `yaml:"mountPath"`
		ReadOnly    bool   `yaml:"readOnly,omitempty"`
		Propagation string `yaml:"mountPropagation,omitempty"`
	}
	volume struct {
		Name     string   `yaml:"name"`
		HostPath hostPath `yaml:"hostPath"`
	}
	hostPath struct {
		Path string `yaml:"path"`
	}
)

// metricsFolder is where node_exporter's textfile collector of Debian looks.
const metricsFolder = "/var/lib/prometheus/node-exporter"

// DaemonSet returns a DaemonSet that only watches: it runs the host's own mpps in the host's file system, which is
// mounted read-only but for the folder of the metrics file, and changes nothing.
func DaemonSet(version, host, image, label string) (*Export, error) {
	e := &Export{Target: "the DaemonSet", File: "mpps-watch.yaml", NotHeld: []Left{
		{What: "changes", Why: "it only watches: values are planned and applied on the node", Command: "mpps apply"},
		{What: "mpps itself",
			Why: "the node's own /usr/bin/mpps runs, so that package and journal are of one version"}}}
	labels := map[string]string{"app.kubernetes.io/name": "mpps-watch"}
	pod := podSpec{HostPID: true, HostNetwork: true, Containers: []container{{
		Name: "watch", Image: image,
		Command: []string{"chroot", "/host", "/usr/bin/mpps", "verify", "--watch", "--metrics",
			metricsFolder + "/mpps.prom"}, Security: security{Privileged: true, ReadOnly: true},
		Resources: resources{map[string]string{"memory": "128Mi"}},
		Mounts: []mount{{"host", "/host", true, "HostToContainer"},
			{Name: "metrics", MountPath: "/host" + metricsFolder}},
	}}, Volumes: []volume{{"host", hostPath{"/"}}, {"metrics", hostPath{metricsFolder}}}}
	if label != "" {
		key, value := labelOf(label, host)
		pod.NodeSelector = map[string]string{key: value}
	}
	var err error
	e.Text, err = documents(comments(version, host, e.Target, e.NotHeld), object{"apps/v1", "DaemonSet",
		metadata{Name: "mpps-watch", Namespace: "kube-system", Labels: labels},
		daemonSetSpec{selector{labels}, template{metadata{Labels: labels}, pod}}})
	return e, err
}
