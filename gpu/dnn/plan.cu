/* SPDX-License-Identifier: MIT */
/*
** From a graph to something that runs: cuDNN's heuristics propose engines, the rules leave some of
** them out, and an engine becomes a plan.
**
** What the rules leave out is what would break a promise of ridge: engines whose sums are kept in
** less than f32 always; those that round f32 factors (TF32) or go through transforms (Winograd,
** FFT), which lose digits, unless TF32 was allowed; and those whose bits differ from run to run
** where the same bits were asked for.
*/
#include <stdio.h>
#include <string.h>

#include "gpu/dnn/graph.h"

#if RG_HAS_DNN

enum { PROPOSALS = 16 };

/* cuDNN's words for what failed. */
static cudnnStatus_t say(rg_dnn_graph *g, cudnnStatus_t status, const char *what)
{
  char words[160] = "";

  if (status != CUDNN_STATUS_SUCCESS) {
    rg_dnn_open()->GetLastErrorString(words, sizeof(words));
    snprintf(g->why, sizeof(g->why), "%.40s: %.50s %.150s", what,
             rg_dnn_open()->GetErrorString(status), words);
  }
  return status;
}

#define DNN_TRY(what, call)                              \
  do {                                                   \
    cudnnStatus_t status_ = say(g, call, what);          \
    if (status_ != CUDNN_STATUS_SUCCESS) return status_; \
  } while (0)

/* A descriptor that is destroyed where it is left, unless it was taken out. */
struct holder {
  rg_dnn_desc d = NULL;

  ~holder(void)
  {
    if (d != NULL) {
      (void)rg_dnn_open()->BackendDestroyDescriptor(d);
    }
  }
  cudnnStatus_t make(cudnnBackendDescriptorType_t type)
  {
    return rg_dnn_open()->BackendCreateDescriptor(type, &d);
  }
  rg_dnn_desc take(void)
  {
    rg_dnn_desc taken = d;

    d = NULL;
    return taken;
  }
};

/* -- Engines ------------------------------------------------------------------------------ */

/* What cuDNN says of an engine's arithmetic, a bit for each note; -1 where it does not say. */
static int64_t notes_of(rg_dnn_desc config)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  int64_t n = 0;
  int64_t bits = 0;
  holder engine;

  if (engine.make(CUDNN_BACKEND_ENGINE_DESCRIPTOR) != CUDNN_STATUS_SUCCESS ||
      dnn->BackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               1, &n, &engine.d) != CUDNN_STATUS_SUCCESS ||
      dnn->BackendGetAttribute(engine.d, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                               CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n,
                               note) != CUDNN_STATUS_SUCCESS) {
    return -1;
  }
  for (int64_t i = 0; i < n && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++) {
    bits |= (int64_t)1 << note[i];
  }
  return bits;
}

/* May an engine be taken?  One that cuDNN says nothing of has every note. */
static bool admitted(rg_dnn_desc config, const rg_dnn_rules &rules)
{
  const int64_t transforms = 1 << CUDNN_NUMERICAL_NOTE_FFT | 1 << CUDNN_NUMERICAL_NOTE_WINOGRAD |
                             1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 |
                             1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                             1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
  int64_t never = 1 << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;

  if (rules.exact) {
    never |= transforms | 1 << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    never |= rules.no_tensor_cores ? 1 << CUDNN_NUMERICAL_NOTE_TENSOR_CORE : 0;
  }
  if (rules.deterministic) {
    never |= 1 << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  }
  return (notes_of(config) & never) == 0;
}

/* One mode's proposals, after the n that are there. */
static cudnnStatus_t propose(rg_dnn_graph *g, const rg_dnn_target &target,
                             const rg_dnn_rules &rules, cudnnBackendHeurMode_t mode,
                             rg_dnn_choice out[RG_DNN_CHOICES], int32_t *n, int64_t *proposed)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  holder heuristics;
  holder config[PROPOSALS];
  rg_dnn_desc into[PROPOSALS];
  int64_t got = 0;

  DNN_TRY("heuristics", heuristics.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  DNN_TRY("heuristics",
          dnn->BackendSetAttribute(heuristics.d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->whole));
  DNN_TRY("heuristics", dnn->BackendSetAttribute(heuristics.d, CUDNN_ATTR_ENGINEHEUR_MODE,
                                                 CUDNN_TYPE_HEUR_MODE, 1, &mode));
  if (target.handle == NULL) {
    DNN_TRY("heuristics",
            dnn->BackendSetAttribute(heuristics.d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target.device));
  }
  DNN_TRY("heuristics", dnn->BackendFinalize(heuristics.d));
  for (int32_t i = 0; i < PROPOSALS; i++) {
    DNN_TRY("heuristics", config[i].make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    into[i] = config[i].d;
  }
  DNN_TRY("heuristics",
          dnn->BackendGetAttribute(heuristics.d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, PROPOSALS, &got, into));
  for (int64_t i = 0; i < got && i < PROPOSALS; i++) {
    (*proposed)++;
    if (*n < RG_DNN_CHOICES && g->n_made < RG_DNN_DESCS && admitted(config[i].d, rules)) {
      rg_dnn_desc d = config[i].take();

      g->made[g->n_made++] = d;
      out[(*n)++] = rg_dnn_choice{ d, NULL, 0 };
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

int32_t rg_dnn_choices(rg_dnn_graph *g, const rg_dnn_target &target, const rg_dnn_rules &rules,
                       rg_dnn_choice out[RG_DNN_CHOICES])
{
  int32_t n = 0;
  int64_t proposed = 0;

  if (g->status != CUDNN_STATUS_SUCCESS) {
    return 0;
  }
  (void)propose(g, target, rules, CUDNN_HEUR_MODE_A, out, &n, &proposed);
  if (n == 0) {
    (void)propose(g, target, rules, CUDNN_HEUR_MODE_FALLBACK, out, &n, &proposed);
  }
  if (n == 0 && proposed > 0) {
    snprintf(g->why, sizeof(g->why), "the rules admit none of %lld engines", (long long)proposed);
  } else if (n == 0 && g->why[0] == '\0') {
    snprintf(g->why, sizeof(g->why), "cuDNN proposes no engine");
  }
  return n;
}

/* -- Plans -------------------------------------------------------------------------------- */

cudnnStatus_t rg_dnn_plan(rg_dnn_graph *g, const rg_dnn_target &target, rg_dnn_choice *choice)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  int64_t got = 0;
  holder plan;

  if (g->n_made == RG_DNN_DESCS) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  DNN_TRY("plan", plan.make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  DNN_TRY("plan", dnn->BackendSetAttribute(plan.d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &choice->config));
  if (target.handle != NULL) {
    DNN_TRY("plan", dnn->BackendSetAttribute(plan.d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                             CUDNN_TYPE_HANDLE, 1, &target.handle));
  } else {
    DNN_TRY("plan", dnn->BackendSetAttribute(plan.d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target.device));
  }
  DNN_TRY("plan", dnn->BackendFinalize(plan.d));
  DNN_TRY("plan", dnn->BackendGetAttribute(plan.d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                           CUDNN_TYPE_INT64, 1, &got, &choice->workspace));
  choice->plan = plan.take();
  g->made[g->n_made++] = choice->plan;
  return CUDNN_STATUS_SUCCESS;
}

rg_dnn_desc rg_dnn_device_of_json(const char *json, char *why, size_t size)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  holder device;
  char words[200] = "";

  if (dnn == NULL) {
    snprintf(why, size, "%s", rg_dnn_note());
    return NULL;
  }
  if (device.make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) == CUDNN_STATUS_SUCCESS &&
      dnn->BackendSetAttribute(device.d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                               (int64_t)strlen(json), json) == CUDNN_STATUS_SUCCESS &&
      dnn->BackendFinalize(device.d) == CUDNN_STATUS_SUCCESS) {
    return device.take();
  }
  dnn->GetLastErrorString(words, sizeof(words));
  snprintf(why, size, "%s", words);
  return NULL;
}

#endif
