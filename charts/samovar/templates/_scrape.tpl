{{/* What the kinds of scrape configuration have in common. */}}

{{- define "samovar.scrapeMetadata" -}}
{{ include "samovar.metadata" . }}
{{- with .Values.metrics.scrape.labels }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The rules and dashboards select by job, whatever the release is called; a person knows a pod by its name. */}}
{{- define "samovar.podRelabelings" -}}
- targetLabel: job
  replacement: samovar
- sourceLabels: [__meta_kubernetes_pod_name]
  targetLabel: instance
{{- end -}}

{{/* How Prometheus shows who it is, and what it looks for in the server's certificate. */}}
{{- define "samovar.scrapeSecurity" -}}
{{- with .Values.metrics.scrape.keySecret }}
{{- if .name }}
authorization:
  type: Bearer
  credentials:
    name: {{ .name | quote }}
    key: {{ .key | quote }}
{{- end }}
{{- end }}
{{- if .Values.tls.enabled }}
tlsConfig:
  serverName: {{ include "samovar.serverName" . | quote }}
  {{- with .Values.tls.caConfigMap }}
  ca:
    configMap:
      name: {{ . | quote }}
      key: ca.crt
  {{- end }}
{{- end }}
{{- end -}}

{{- define "samovar.scrapeEndpoint" -}}
port: http
path: /metrics
scheme: {{ include "samovar.scheme" . | quote }}
interval: {{ .Values.metrics.scrape.interval | quote }}
scrapeTimeout: {{ .Values.metrics.scrape.timeout | quote }}
{{- with include "samovar.scrapeSecurity" . | trim }}
{{ . }}
{{- end }}
relabelings:
  {{- include "samovar.podRelabelings" . | nindent 2 }}
{{- with .Values.metrics.scrape.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
