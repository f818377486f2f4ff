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

{{- define "samovar.scrapeEndpoint" -}}
port: http
path: /metrics
scheme: http
interval: {{ .Values.metrics.scrape.interval }}
scrapeTimeout: {{ .Values.metrics.scrape.timeout }}
relabelings:
  {{- include "samovar.podRelabelings" . | nindent 2 }}
{{- with .Values.metrics.scrape.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
