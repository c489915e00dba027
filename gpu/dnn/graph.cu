/* SPDX-License-Identifier: MIT */
/*
** Building graphs for cuDNN: each function makes a descriptor, sets what it is told, finalizes it.
** NVIDIA: cuDNN backend API reference, version 9.
*/
#include <stdio.h>
#include <string.h>

#include <new>

#include "gpu/dnn/graph.h"

#if RG_HAS_DNN

/* -- Errors ------------------------------------------------------------------------------- */

/* Remember the first failure, with cuDNN's own words. */
static void check(rg_dnn_graph *g, cudnnStatus_t status, const char *what)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  char words[160] = "";

  if (status == CUDNN_STATUS_SUCCESS || g->status != CUDNN_STATUS_SUCCESS) {
    return;
  }
  dnn->GetLastErrorString(words, sizeof(words));
  snprintf(g->why, sizeof(g->why), "%.40s: %.50s %.150s", what, dnn->GetErrorString(status), words);
  g->status = status;
}

static void refuse(rg_dnn_graph *g, const char *why)
{
  if (g->status == CUDNN_STATUS_SUCCESS) {
    snprintf(g->why, sizeof(g->why), "%s", why);
    g->status = CUDNN_STATUS_BAD_PARAM;
  }
}

/* -- Descriptors -------------------------------------------------------------------------- */

static rg_dnn_desc make(rg_dnn_graph *g, cudnnBackendDescriptorType_t type, const char *what)
{
  rg_dnn_desc d = NULL;

  if (g->status == CUDNN_STATUS_SUCCESS && g->n_made == RG_DNN_DESCS) {
    refuse(g, "the graph has too many parts");
  }
  if (g->status == CUDNN_STATUS_SUCCESS) {
    check(g, rg_dnn_open()->BackendCreateDescriptor(type, &d), what);
  }
  if (d != NULL) {
    g->made[g->n_made++] = d;
  }
  return d;
}

static void set(rg_dnn_graph *g, rg_dnn_desc d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *from, const char *what)
{
  if (g->status == CUDNN_STATUS_SUCCESS) {
    check(g, rg_dnn_open()->BackendSetAttribute(d, name, type, n, from), what);
  }
}

static void finish(rg_dnn_graph *g, rg_dnn_desc d, const char *what)
{
  if (g->status == CUDNN_STATUS_SUCCESS) {
    check(g, rg_dnn_open()->BackendFinalize(d), what);
  }
}

/* SET(d, OPERATION_MATMUL_ADESC, BACKEND_DESCRIPTOR, 1, &a): the error names the attribute. */
#define SET(d, name, type, n, from) set(g, d, CUDNN_ATTR_##name, CUDNN_TYPE_##type, n, from, #name)

#define SET_DESC(d, name, x) SET(d, name, BACKEND_DESCRIPTOR, 1, &(x))

static void add(rg_dnn_graph *g, rg_dnn_desc op, const char *what)
{
  finish(g, op, what);
  if (g->status == CUDNN_STATUS_SUCCESS && g->n_ops == RG_DNN_OPS) {
    refuse(g, "the graph has too many operations");
  }
  if (g->status == CUDNN_STATUS_SUCCESS) {
    g->ops[g->n_ops++] = op;
  }
}

rg_dnn_graph *rg_dnn_begin(void)
{
  rg_dnn_graph *g = new (std::nothrow) rg_dnn_graph();

  if (g != NULL) {
    g->next_uid = 1000;
  }
  return g;
}

void rg_dnn_drop(rg_dnn_graph *g)
{
  for (int32_t i = g != NULL ? g->n_made : 0; i > 0; i--) {
    (void)rg_dnn_open()->BackendDestroyDescriptor(g->made[i - 1]);
  }
  delete g;
}

/* -- Tensors ------------------------------------------------------------------------------ */

rg_dnn_layout rg_dnn_dense(cudnnDataType_t type, int64_t a, int64_t b, int64_t c, int64_t d)
{
  rg_dnn_layout x = {};

  x.shape[0] = a;
  x.shape[1] = b;
  x.shape[2] = c;
  x.shape[3] = d;
  x.step[3] = 1;
  for (int i = 2; i >= 0; i--) {
    x.step[i] = x.step[i + 1] * x.shape[i + 1];
  }
  x.type = type;
  x.align = 16;
  return x;
}

rg_dnn_layout rg_dnn_transposed(rg_dnn_layout x)
{
  rg_dnn_layout y = x;

  y.shape[2] = x.shape[3];
  y.shape[3] = x.shape[2];
  y.step[2] = x.step[3];
  y.step[3] = x.step[2];
  return y;
}

enum { IN_MEMORY, BETWEEN, VALUE };

static rg_dnn_desc tensor(rg_dnn_graph *g, int64_t uid, const rg_dnn_layout &x, int32_t kind)
{
  rg_dnn_desc d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
  const cudnnDataType_t type = (cudnnDataType_t)x.type;
  const bool yes = true;

  SET(d, TENSOR_UNIQUE_ID, INT64, 1, &uid);
  SET(d, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
  SET(d, TENSOR_DIMENSIONS, INT64, 4, x.shape);
  SET(d, TENSOR_STRIDES, INT64, 4, x.step);
  SET(d, TENSOR_BYTE_ALIGNMENT, INT64, 1, &x.align);
  if (kind == BETWEEN) {
    SET(d, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &yes);
  } else if (kind == VALUE) {
    SET(d, TENSOR_IS_BY_VALUE, BOOLEAN, 1, &yes);
  }
  finish(g, d, "tensor");
  return d;
}

rg_dnn_desc rg_dnn_given(rg_dnn_graph *g, int64_t uid, const rg_dnn_layout &x)
{
  return tensor(g, uid, x, IN_MEMORY);
}

rg_dnn_desc rg_dnn_between(rg_dnn_graph *g, const rg_dnn_layout &x)
{
  return tensor(g, g->next_uid++, x, BETWEEN);
}

rg_dnn_desc rg_dnn_inner(rg_dnn_graph *g, const rg_dnn_layout &x)
{
  if (g->n_inner == RG_DNN_INNER || x.type != CUDNN_DATA_FLOAT) {
    refuse(g, "the graph has too many tensors of its own");
    return NULL;
  }
  g->inner_uid[g->n_inner] = g->next_uid;
  g->inner_bytes[g->n_inner++] = x.shape[0] * x.step[0] * (int64_t)sizeof(float);
  return tensor(g, g->next_uid++, x, IN_MEMORY);
}

rg_dnn_desc rg_dnn_value(rg_dnn_graph *g, float value)
{
  if (g->n_values == RG_DNN_VALUES) {
    refuse(g, "the graph has too many numbers");
    return NULL;
  }
  g->value[g->n_values] = value;
  g->value_uid[g->n_values++] = g->next_uid;
  return tensor(g, g->next_uid++, rg_dnn_dense(CUDNN_DATA_FLOAT, 1, 1, 1, 1), VALUE);
}

/* -- Operations --------------------------------------------------------------------------- */

/* What all elementwise functions have; an axis below 0 is none. */
struct point {
  cudnnPointwiseMode_t mode;
  cudnnDataType_t type;
  int64_t axis;
};

static rg_dnn_desc pointwise(rg_dnn_graph *g, const point &p, rg_dnn_desc x, rg_dnn_desc b,
                             rg_dnn_desc t, rg_dnn_desc y)
{
  rg_dnn_desc d = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise");
  const double one = 1;

  SET(d, POINTWISE_MODE, POINTWISE_MODE, 1, &p.mode);
  SET(d, POINTWISE_MATH_PREC, DATA_TYPE, 1, &p.type);
  if (p.axis >= 0) {
    SET(d, POINTWISE_AXIS, INT64, 1, &p.axis);
  }
  if (p.mode == CUDNN_POINTWISE_SWISH_FWD) {
    SET(d, POINTWISE_SWISH_BETA, DOUBLE, 1, &one);
  }
  finish(g, d, "pointwise");
  rg_dnn_desc op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise operation");

  SET_DESC(op, OPERATION_POINTWISE_PW_DESCRIPTOR, d);
  SET_DESC(op, OPERATION_POINTWISE_XDESC, x);
  if (b != NULL) {
    SET_DESC(op, OPERATION_POINTWISE_BDESC, b);
  }
  if (t != NULL) {
    SET_DESC(op, OPERATION_POINTWISE_TDESC, t);
  }
  SET_DESC(op, OPERATION_POINTWISE_YDESC, y);
  add(g, op, "pointwise operation");
  return y;
}

rg_dnn_desc rg_dnn_point(rg_dnn_graph *g, cudnnPointwiseMode_t mode, rg_dnn_desc x, rg_dnn_desc b,
                         rg_dnn_desc y)
{
  return pointwise(g, point{ mode, CUDNN_DATA_FLOAT, -1 }, x, b, NULL, y);
}

rg_dnn_desc rg_dnn_compare(rg_dnn_graph *g, cudnnPointwiseMode_t mode, rg_dnn_desc x, rg_dnn_desc b,
                           rg_dnn_desc y)
{
  return pointwise(g, point{ mode, CUDNN_DATA_BOOLEAN, -1 }, x, b, NULL, y);
}

rg_dnn_desc rg_dnn_select(rg_dnn_graph *g, rg_dnn_desc t, rg_dnn_desc x, rg_dnn_desc b,
                          rg_dnn_desc y)
{
  return pointwise(g, point{ CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1 }, x, b, t, y);
}

rg_dnn_desc rg_dnn_index(rg_dnn_graph *g, int64_t axis, rg_dnn_desc x, rg_dnn_desc y)
{
  return pointwise(g, point{ CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis }, x, NULL, NULL, y);
}

rg_dnn_desc rg_dnn_matmul(rg_dnn_graph *g, rg_dnn_desc a, rg_dnn_desc b, rg_dnn_desc c)
{
  rg_dnn_desc d = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "matmul");
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;

  SET(d, MATMUL_COMP_TYPE, DATA_TYPE, 1, &type);
  finish(g, d, "matmul");
  rg_dnn_desc op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "matmul operation");

  SET_DESC(op, OPERATION_MATMUL_DESC, d);
  SET_DESC(op, OPERATION_MATMUL_ADESC, a);
  SET_DESC(op, OPERATION_MATMUL_BDESC, b);
  SET_DESC(op, OPERATION_MATMUL_CDESC, c);
  add(g, op, "matmul operation");
  return c;
}

rg_dnn_desc rg_dnn_reduce(rg_dnn_graph *g, cudnnReduceTensorOp_t op, rg_dnn_desc x, rg_dnn_desc y)
{
  rg_dnn_desc d = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "reduction");
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;

  SET(d, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, &op);
  SET(d, REDUCTION_COMP_TYPE, DATA_TYPE, 1, &type);
  finish(g, d, "reduction");
  rg_dnn_desc o = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "reduction operation");

  SET_DESC(o, OPERATION_REDUCTION_DESC, d);
  SET_DESC(o, OPERATION_REDUCTION_XDESC, x);
  SET_DESC(o, OPERATION_REDUCTION_YDESC, y);
  add(g, o, "reduction operation");
  return y;
}

rg_dnn_desc rg_dnn_reshape(rg_dnn_graph *g, rg_dnn_desc x, rg_dnn_desc y)
{
  rg_dnn_desc op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape operation");

  SET_DESC(op, OPERATION_RESHAPE_XDESC, x);
  SET_DESC(op, OPERATION_RESHAPE_YDESC, y);
  add(g, op, "reshape operation");
  return y;
}

/* -- Convolutions ------------------------------------------------------------------------- */

void rg_dnn_convolve(rg_dnn_graph *g, int32_t kind, const rg_dnn_window &o, rg_dnn_desc x,
                     rg_dnn_desc w, rg_dnn_desc y)
{
  rg_dnn_desc d = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "convolution");
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const int64_t axes = 2;
  const float one = 1;
  const float zero = 0;

  SET(d, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &type);
  SET(d, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
  SET(d, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &axes);
  SET(d, CONVOLUTION_FILTER_STRIDES, INT64, 2, o.stride);
  SET(d, CONVOLUTION_DILATIONS, INT64, 2, o.dilation);
  SET(d, CONVOLUTION_PRE_PADDINGS, INT64, 2, o.pad_low);
  SET(d, CONVOLUTION_POST_PADDINGS, INT64, 2, o.pad_high);
  finish(g, d, "convolution");
  switch (kind) {
#define KIND(code, TYPE, NAME, X, W, Y)                                           \
  case code: {                                                                    \
    rg_dnn_desc op = make(g, CUDNN_BACKEND_OPERATION_##TYPE##_DESCRIPTOR, #NAME); \
    SET_DESC(op, OPERATION_##NAME##_CONV_DESC, d);                                \
    SET_DESC(op, OPERATION_##NAME##_##X, x);                                      \
    SET_DESC(op, OPERATION_##NAME##_##W, w);                                      \
    SET_DESC(op, OPERATION_##NAME##_##Y, y);                                      \
    SET(op, OPERATION_##NAME##_ALPHA, FLOAT, 1, &one);                            \
    SET(op, OPERATION_##NAME##_BETA, FLOAT, 1, &zero);                            \
    add(g, op, #NAME);                                                            \
    break;                                                                        \
  }
    KIND(RG_DNN_FORWARD, CONVOLUTION_FORWARD, CONVOLUTION_FORWARD, X, W, Y)
    KIND(RG_DNN_BACK_DATA, CONVOLUTION_BACKWARD_DATA, CONVOLUTION_BWD_DATA, DX, W, DY)
    KIND(RG_DNN_BACK_WEIGHT, CONVOLUTION_BACKWARD_FILTER, CONVOLUTION_BWD_FILTER, X, DW, DY)
#undef KIND
  default:
    refuse(g, "there is no such convolution");
  }
}

/* -- The whole ---------------------------------------------------------------------------- */

void rg_dnn_close(rg_dnn_graph *g, const rg_dnn_target &target)
{
  rg_dnn_desc d = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "graph");

  if (target.handle != NULL) {
    SET(d, OPERATIONGRAPH_HANDLE, HANDLE, 1, &target.handle);
  }
  SET(d, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, g->n_ops, g->ops);
  finish(g, d, "graph");
  g->whole = d;
}

#endif
