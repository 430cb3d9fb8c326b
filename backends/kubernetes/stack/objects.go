package stack

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/kubeapi"
)

// The objects of the API, as far as they are read.

type pod struct {
	Meta kubeapi.Meta `json:"metadata"`
	Spec struct {
		Node       string      `json:"nodeName"`
		Containers []container `json:"containers"`
		Init       []container `json:"initContainers"`
	} `json:"spec"`
	Status kubeapi.PodStatus `json:"status"`
}

type container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Restart string   `json:"restartPolicy"` // Always in an init container makes it a sidecar
	Ports   []struct {
		Name   string `json:"name"`
		Number int    `json:"containerPort"`
	} `json:"ports"`
	Resources struct {
		Limits map[string]string `json:"limits"`
	} `json:"resources"`
}

type service struct {
	Meta kubeapi.Meta `json:"metadata"`
	Spec struct {
		Type      string            `json:"type"`
		ClusterIP string            `json:"clusterIP"`
		Selector  map[string]string `json:"selector"`
		Ports     []struct {
			Name        string `json:"name"`
			Port        int    `json:"port"`
			AppProtocol string `json:"appProtocol"`
		} `json:"ports"`
	} `json:"spec"`
	Status struct {
		LoadBalancer balancer `json:"loadBalancer"`
	} `json:"status"`
}

type balancer struct {
	Ingress []struct {
		IP       string `json:"ip"`
		Hostname string `json:"hostname"`
	} `json:"ingress"`
}

// A pool is an InferencePool of v1, or of v1alpha2, whose selector is the labels
// themselves.
type pool struct {
	Meta kubeapi.Meta `json:"metadata"`
	Spec struct {
		Selector  json.RawMessage `json:"selector"`
		Port      int             `json:"targetPortNumber"`
		Picker    reference       `json:"endpointPickerRef"`
		Extension reference       `json:"extensionRef"`
	} `json:"spec"`
}

func (p *pool) selector() map[string]string {
	var v1 struct {
		Labels map[string]string `json:"matchLabels"`
	}
	if json.Unmarshal(p.Spec.Selector, &v1) == nil && v1.Labels != nil {
		return v1.Labels
	}
	var old map[string]string
	if json.Unmarshal(p.Spec.Selector, &old) != nil {
		return nil
	}
	return old
}

// picker returns the name of the Service of its endpoint picker.
func (p *pool) picker() string {
	if p.Spec.Picker.Name != "" {
		return p.Spec.Picker.Name
	}
	return p.Spec.Extension.Name
}

type reference struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Section   string `json:"sectionName"`
}

type route struct {
	Meta kubeapi.Meta `json:"metadata"`
	Spec struct {
		Hostnames []string    `json:"hostnames"`
		Parents   []reference `json:"parentRefs"`
		Rules     []struct {
			Backends []reference `json:"backendRefs"`
			Matches  []struct {
				Path struct {
					Type  string `json:"type"`
					Value string `json:"value"`
				} `json:"path"`
				Headers []struct {
					Name  string `json:"name"`
					Value string `json:"value"`
				} `json:"headers"`
			} `json:"matches"`
		} `json:"rules"`
	} `json:"spec"`
}

type gateway struct {
	Meta kubeapi.Meta `json:"metadata"`
	Spec struct {
		Listeners []struct {
			Name     string `json:"name"`
			Hostname string `json:"hostname"`
			Port     int    `json:"port"`
			Protocol string `json:"protocol"`
		} `json:"listeners"`
	} `json:"spec"`
	Status struct {
		Addresses []struct {
			Value string `json:"value"`
		} `json:"addresses"`
	} `json:"status"`
}

type ingress struct {
	Meta kubeapi.Meta `json:"metadata"`
	Spec struct {
		Default struct {
			Service reference `json:"service"`
		} `json:"defaultBackend"`
		TLS []struct {
			Hosts []string `json:"hosts"`
		} `json:"tls"`
		Rules []struct {
			Host string `json:"host"`
			HTTP struct {
				Paths []struct {
					Path    string `json:"path"`
					Backend struct {
						Service reference `json:"service"`
					} `json:"backend"`
				} `json:"paths"`
			} `json:"http"`
		} `json:"rules"`
	} `json:"spec"`
	Status struct {
		LoadBalancer balancer `json:"loadBalancer"`
	} `json:"status"`
}

// matches reports whether labels have all of a selector's. An empty selector, which
// selects nothing in a Service, matches none.
func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return len(selector) > 0
}

// parseSelector reads "a=b,c=d", which is nil if it is anything else.
func parseSelector(text string) map[string]string {
	labels := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		value = strings.TrimSpace(strings.TrimPrefix(value, "="))
		if key = strings.TrimSpace(key); !ok || key == "" || strings.ContainsAny(key, "! ()") {
			return nil
		}
		labels[key] = value
	}
	return labels
}

// sorted returns the keys of a set, in order.
func sorted[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }
