/* SPDX-License-Identifier: MIT */
/*
** cuDNN's backend interface as the plugin uses it: the library, which is opened late and by name;
** graphs of tensors and operations; and plans, which are a graph on one engine of cuDNN.
**
** A graph remembers its first error and does nothing more from there on, so that what builds one
** asks once, at its end.
*/
#ifndef RIDGE_GPU_DNN_GRAPH_H
#define RIDGE_GPU_DNN_GRAPH_H

#include "gpu/dnn/dnn.h"

#if RG_HAS_DNN
#include <cudnn_graph.h>

/* -- The library (library.cu) --------------------------------------------------------- */

/* F(name) for each function, without its cudnn. */
#define RG_DNN_LIST(F)        \
  F(GetVersion)               \
  F(GetErrorString)           \
  F(GetLastErrorString)       \
  F(Create)                   \
  F(SetStream)                \
  F(BackendCreateDescriptor)  \
  F(BackendDestroyDescriptor) \
  F(BackendFinalize)          \
  F(BackendSetAttribute)      \
  F(BackendGetAttribute)      \
  F(BackendExecute)

struct rg_dnn_library {
#define RG_DNN_FIELD(name) decltype(&::cudnn##name) name;
  RG_DNN_LIST(RG_DNN_FIELD)
#undef RG_DNN_FIELD
  size_t version; /* 91900 is 9.19.0 */
};

/* The library, opened by the first who asks; NULL where there is none (rg_dnn_note says why). */
const rg_dnn_library *rg_dnn_open(void);

/* -- Graphs (graph.cu) ---------------------------------------------------------------- */

typedef cudnnBackendDescriptor_t rg_dnn_desc;

/* A tensor's layout; steps are in elements. */
struct rg_dnn_layout {
  int64_t shape[4];
  int64_t step[4];
  int64_t align; /* of its first element, in bytes */
  int32_t type;  /* cudnnDataType_t */
  int32_t _pad;
};

/* A memory for a number: who it is in the graph, and where it lies. */
struct rg_dnn_bind {
  int64_t uid;
  void *data;
};

enum { RG_DNN_DESCS = 192, RG_DNN_OPS = 32, RG_DNN_VALUES = 4, RG_DNN_INNER = 2 };

struct rg_dnn_graph {
  rg_dnn_desc made[RG_DNN_DESCS]; /* everything, in order */
  int32_t n_made;
  rg_dnn_desc ops[RG_DNN_OPS];
  int32_t n_ops;
  rg_dnn_desc whole; /* after rg_dnn_close */
  int64_t next_uid;  /* of tensors that are nobody's: 1000, ... */
  float value[RG_DNN_VALUES];
  int64_t value_uid[RG_DNN_VALUES];
  int32_t n_values;
  int64_t inner_bytes[RG_DNN_INNER]; /* memory that the graph wants beside its workspace */
  int64_t inner_uid[RG_DNN_INNER];
  int32_t n_inner;
  cudnnStatus_t status; /* of the first call that failed */
  char why[256];
};

/* An empty graph, made with new; NULL where there is no memory. */
rg_dnn_graph *rg_dnn_begin(void);
void rg_dnn_drop(rg_dnn_graph *g);

/* Row-major without gaps. */
rg_dnn_layout rg_dnn_dense(cudnnDataType_t type, int64_t a, int64_t b, int64_t c, int64_t d);

/* Axes 2 and 3 exchanged. */
rg_dnn_layout rg_dnn_transposed(rg_dnn_layout x);

/* Tensors: one that the caller binds; one that never is in memory; one whose memory is the graph's;
** and a number that is the same in every run. */
rg_dnn_desc rg_dnn_given(rg_dnn_graph *g, int64_t uid, const rg_dnn_layout &x);
rg_dnn_desc rg_dnn_between(rg_dnn_graph *g, const rg_dnn_layout &x);
rg_dnn_desc rg_dnn_inner(rg_dnn_graph *g, const rg_dnn_layout &x);
rg_dnn_desc rg_dnn_value(rg_dnn_graph *g, float value);

/* Operations; all compute in f32, but for indices and comparisons.  Each gives back its result, y.
**
** point   y = mode(x, b), b may be NULL; select is y = t ? x : b
** index   y = number along that axis, i32, in the shape of x
** matmul  c = a b, by the last two axes
** reduce  y = x reduced over the axes in which y has size 1
** reshape y = x in the shape of y: here, its last two axes exchanged */
rg_dnn_desc rg_dnn_point(rg_dnn_graph *g, cudnnPointwiseMode_t mode, rg_dnn_desc x, rg_dnn_desc b,
                         rg_dnn_desc y);
rg_dnn_desc rg_dnn_compare(rg_dnn_graph *g, cudnnPointwiseMode_t mode, rg_dnn_desc x, rg_dnn_desc b,
                           rg_dnn_desc y);
rg_dnn_desc rg_dnn_select(rg_dnn_graph *g, rg_dnn_desc t, rg_dnn_desc x, rg_dnn_desc b,
                          rg_dnn_desc y);
rg_dnn_desc rg_dnn_index(rg_dnn_graph *g, int64_t axis, rg_dnn_desc x, rg_dnn_desc y);
rg_dnn_desc rg_dnn_matmul(rg_dnn_graph *g, rg_dnn_desc a, rg_dnn_desc b, rg_dnn_desc c);
rg_dnn_desc rg_dnn_reduce(rg_dnn_graph *g, cudnnReduceTensorOp_t op, rg_dnn_desc x, rg_dnn_desc y);
rg_dnn_desc rg_dnn_reshape(rg_dnn_graph *g, rg_dnn_desc x, rg_dnn_desc y);

/* A convolution and its two gradients: which of x, w and y is the result. */
enum { RG_DNN_FORWARD, RG_DNN_BACK_DATA, RG_DNN_BACK_WEIGHT };

struct rg_dnn_window {
  int64_t stride[2], dilation[2], pad_low[2], pad_high[2];
};

void rg_dnn_convolve(rg_dnn_graph *g, int32_t kind, const rg_dnn_window &o, rg_dnn_desc x,
                     rg_dnn_desc w, rg_dnn_desc y);

/* -- Plans (plan.cu) ------------------------------------------------------------------ */

/* What is planned for: a device by its handle, or one that is only described (the tests'). */
struct rg_dnn_target {
  cudnnHandle_t handle;
  rg_dnn_desc device; /* where there is no handle */
};

/* Which engines may be taken. */
struct rg_dnn_rules {
  bool deterministic;   /* those that give the same bits each time */
  bool exact;           /* those that round no factor and sum plain products */
  bool no_tensor_cores; /* which would round factors of f32 to TF32 */
};

/* An engine, and the plan for it. */
struct rg_dnn_choice {
  rg_dnn_desc config;
  rg_dnn_desc plan; /* NULL before rg_dnn_plan */
  int64_t workspace;
};

enum { RG_DNN_CHOICES = 8 };

/* All operations are there. */
void rg_dnn_close(rg_dnn_graph *g, const rg_dnn_target &target);

/* What cuDNN's heuristics propose, best first, of what the rules admit: how many.  0: g->why says
** in a few words what happened. */
int32_t rg_dnn_choices(rg_dnn_graph *g, const rg_dnn_target &target, const rg_dnn_rules &rules,
                       rg_dnn_choice out[RG_DNN_CHOICES]);

/* Compile, where the engine is compiled late.  What is not CUDNN_STATUS_SUCCESS is in g->why. */
cudnnStatus_t rg_dnn_plan(rg_dnn_graph *g, const rg_dnn_target &target, rg_dnn_choice *choice);

/* A device from cuDNN's own JSON of one; NULL where it does not like it. */
rg_dnn_desc rg_dnn_device_of_json(const char *json, char *why, size_t size);

/* -- Graphs of ridge's operations --------------------------------------------------------- */

/* Tensors of a convolution (conv.cu): pure data, which is compared byte by byte. */
enum { RG_DNN_X = 1, RG_DNN_W, RG_DNN_Y, RG_DNN_B };

struct rg_dnn_conv {
  int32_t kind;
  int32_t act;  /* RG_ACT_..., of forward */
  int32_t bias; /* of forward */
  int32_t _pad;
  rg_dnn_layout x, w, y, b;
  rg_dnn_window o;
};

void rg_dnn_conv_build(rg_dnn_graph *g, const void *what);

/* Is an activation left to cuDNN?  Not those with an exponential that overflows: its tanh (9.19, on
** an H200) is NaN from 44.4 on, where exp(2x) is infinite. */
bool rg_dnn_fuses(int32_t act);

/* Tensors of attention (attention.cu). */
enum {
  RG_DNN_Q = 1,
  RG_DNN_K,
  RG_DNN_V,
  RG_DNN_O,
  RG_DNN_LSE,
  RG_DNN_DO,
  RG_DNN_DQ,
  RG_DNN_DK,
  RG_DNN_DV
};

struct rg_dnn_sdpa {
  rg_dnn_layout q, k, v, o, lse; /* lse of forward: shape 0 where nobody wants it */
  rg_dnn_layout d_o, dq, dk, dv; /* of the gradient */
  float scale;
  int32_t causal;
  int32_t deterministic;
  int32_t _pad;
};

void rg_dnn_sdpa_build(rg_dnn_graph *g, const void *what);
void rg_dnn_sdpa_back_build(rg_dnn_graph *g, const void *what);

#endif
#endif
