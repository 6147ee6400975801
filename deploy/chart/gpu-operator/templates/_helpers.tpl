{{/* Labels of every object of the chart. */}}
{{- define "gpu-operator.labels" -}}
app.kubernetes.io/name: gpu-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: gpu-operator
{{- end }}

{{/* The spec of the ClusterPolicy: all values but the installation's. */}}
{{- define "gpu-operator.spec" -}}
{{- toYaml (omit .Values "image" "nodeImage" "imagePullSecrets" "replicas" "resources" "hostRoots" "createPolicy" "global") -}}
{{- end }}
