{{/* What scaling goes by. KEDA asks Prometheus; for HPA an adapter serves the same (docs/deploy/kubernetes.md). */}}

{{- define "samovar.podMatchers" -}}
namespace={{ .Release.Namespace | quote }},pod=~"{{ include "samovar.fullname" . }}-[a-z0-9]+-[a-z0-9]+"
{{- end -}}

{{/*
Each query gives the most that it was within the scale-down window: a pod that goes takes its snapshots along, so the
number falls only after everybody had the time to come back. Kubernetes' own window ends at an hour.
*/}}
{{- define "samovar.waitingQuery" -}}
max_over_time(sum(samovar_requests_waiting{ {{- include "samovar.podMatchers" . -}} })[{{ include "samovar.scaleDownSeconds" . }}s:30s])
{{- end -}}

{{- define "samovar.missedHitsQuery" -}}
max_over_time(sum(rate(samovar_snapshot_ghost_hits_total{ {{- include "samovar.podMatchers" . -}} ,capacity="2x"}[10m]))[{{ include "samovar.scaleDownSeconds" . }}s:1m])
{{- end -}}

{{/* Pods are added quickly; one at a time goes, after as much of the window as Kubernetes allows. */}}
{{- define "samovar.scalingBehavior" -}}
{{- $window := include "samovar.scaleDownSeconds" . | int64 -}}
scaleUp:
  stabilizationWindowSeconds: 30
  policies:
    - type: Pods
      value: 2
      periodSeconds: 60
scaleDown:
  stabilizationWindowSeconds: {{ min 3600 $window }}
  policies:
    - type: Pods
      value: 1
      periodSeconds: {{ min 1800 $window }}
{{- end -}}
