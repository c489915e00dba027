/* SPDX-License-Identifier: MIT */
/*
** Layers: their life, their parameters, their facts, and the operation behind forward.
*/
#include "layer/layer.h"
#include "ridge/grad.h"

/* -- Life ---------------------------------------------------------------------------------- */

rg_status rg_layer_new(int32_t kind, int64_t n_in, int64_t n_out, rg_layer **out)
{
  rg_layer *layer = rg_host_zeroed(sizeof(*layer));

  if (layer == NULL) {
    return rg_fail(RG_ENOMEM, "layer: no memory for it");
  }
  atomic_init(&layer->refs, 1);
  layer->kind = kind;
  layer->n_in = n_in;
  layer->n_out = n_out;
  *out = layer;
  return RG_OK;
}

rg_layer *rg_layer_retain(rg_layer *layer)
{
  if (layer != NULL) {
    atomic_fetch_add(&layer->refs, 1);
  }
  return layer;
}

void rg_layer_release(rg_layer *layer)
{
  if (layer == NULL || atomic_fetch_sub(&layer->refs, 1) != 1) {
    return;
  }
  for (int32_t i = 0; i < layer->n_params; i++) {
    rg_tensor_release(layer->param[i].tensor);
  }
  for (int32_t i = 0; i < RG_LAYER_PARTS; i++) {
    rg_tensor_release(layer->part[i]);
  }
  rg_tensor_release(layer->bias);
  rg_host_free(layer);
}

rg_status rg_layer_finish(rg_layer *layer, rg_status status, rg_layer **out)
{
  if (status == RG_OK) {
    status = rg_layer_name_params(layer);
  }
  if (status != RG_OK) {
    rg_layer_release(layer);
    return status;
  }
  *out = layer;
  return RG_OK;
}

int32_t rg_layer_parts(const rg_layer *layer)
{
  switch (layer->kind) {
  case RG_LAYER_LINEAR:
  case RG_LAYER_CONV2D:
  case RG_LAYER_EMBEDDING:
    return 1;
  case RG_LAYER_NORM:
    return layer->part[0] != NULL;
  case RG_LAYER_LOWRANK:
    return 2;
  default:
    return layer->form == RG_SIGNS_BITS ? 4 : layer->form == RG_SIGNS_SEED ? 3 : 2;
  }
}

rg_status rg_layer_check_sizes(const char *what, int64_t n_in, int64_t n_out)
{
  if (n_in < 1 || n_out < 1) {
    return rg_fail(RG_EARG, "%s: %lld inputs and %lld outputs; both must be at least 1", what,
                   (long long)n_in, (long long)n_out);
  }
  return RG_OK;
}

/* -- Parameters ------------------------------------------------------------------------------ */

void rg_layer_add_param(rg_layer *layer, const char *name, rg_tensor *x, bool trainable)
{
  rg_tensor_set_param(x, 1);
  layer->param[layer->n_params++] = (rg_param){ .name = name, .tensor = x, .trainable = trainable };
}

rg_status rg_layer_name_params(rg_layer *layer)
{
  for (int32_t i = 0; i < rg_layer_parts(layer); i++) {
    rg_tensor_set_param(layer->part[i], 1);
  }
  switch (layer->kind) {
  case RG_LAYER_LINEAR:
  case RG_LAYER_CONV2D:
  case RG_LAYER_EMBEDDING:
  case RG_LAYER_NORM:
    if (layer->part[0] != NULL) {
      rg_layer_add_param(layer, "weight", rg_tensor_retain(layer->part[0]), true);
    }
    break;
  case RG_LAYER_LOWRANK:
    rg_layer_add_param(layer, "A", rg_tensor_retain(layer->part[0]), true);
    rg_layer_add_param(layer, "B", rg_tensor_retain(layer->part[1]), true);
    break;
  default:
    RG_TRY(rg_sketch_name_params(layer));
    break;
  }
  if (layer->bias != NULL) {
    rg_layer_add_param(layer, "bias", rg_tensor_retain(layer->bias), true);
  }
  return RG_OK;
}

int32_t rg_layer_params(const rg_layer *layer)
{
  return layer == NULL ? 0 : layer->n_params;
}

rg_status rg_layer_param(const rg_layer *layer, int32_t index, rg_param *out)
{
  if (layer == NULL || out == NULL) {
    return rg_fail(RG_EARG, "layer: a pointer is NULL");
  }
  if (index < 0 || index >= layer->n_params) {
    return rg_fail(RG_EARG, "layer: there is no parameter %d of %d", index, layer->n_params);
  }
  *out = layer->param[index];
  return RG_OK;
}

/* -- Copies ------------------------------------------------------------------------------------ */

/* The tensor converted, or copied where it is no number to compute with (signs in bits, a seed) or
** has the type already. */
static rg_status copy_part(const rg_tensor *x, int32_t dtype, int32_t device, rg_tensor **out)
{
  bool converts = x->_dtype != RG_U8 && x->_dtype != RG_I64 && x->_dtype != dtype;
  rg_tensor *here = NULL;
  rg_status status;

  if (x->_device == device) {
    return converts ? rg_cast(x, dtype, out) : rg_clone(x, out);
  }
  if (converts) {
    RG_TRY(rg_cast(x, dtype, &here));
  }
  status = rg_to_device(here != NULL ? here : x, device, out);
  rg_tensor_release(here);
  return status;
}

/* How the parts of a copy are made. */
typedef struct copying {
  int32_t dtype;
  int32_t device;
  bool flows; /* gradients flow back from the copy; the type stays */
} copying;

static rg_status make_part(const rg_tensor *x, const copying *how, rg_tensor **out)
{
  return how->flows ? rg_mirror(x, how->device, out) : copy_part(x, how->dtype, how->device, out);
}

static rg_status copy_layer(const rg_layer *layer, const copying *how, rg_layer **out)
{
  rg_layer *copy = NULL;
  rg_status status;
  int32_t mode;

  RG_TRY(rg_layer_new(layer->kind, layer->n_in, layer->n_out, &copy));
  copy->form = layer->form;
  copy->act = layer->act;
  copy->training = layer->training;
  copy->n_terms = layer->n_terms;
  copy->rank = layer->rank;
  copy->p = layer->p;
  copy->conv = layer->conv;
  copy->eps = layer->eps;
  copy->rms = layer->rms;
  mode = rg_grad_mode(0); /* parameters of its own come from nothing */
  rg_grad_mode(how->flows ? mode : 0);
  status = RG_OK;
  for (int32_t i = 0; i < rg_layer_parts(layer) && status == RG_OK; i++) {
    status = make_part(layer->part[i], how, &copy->part[i]);
  }
  if (status == RG_OK && layer->bias != NULL) {
    status = make_part(layer->bias, how, &copy->bias);
  }
  rg_grad_mode(mode);
  return rg_layer_finish(copy, status, out);
}

static const rg_tensor *first_of(const rg_layer *layer)
{
  return layer->part[0] != NULL ? layer->part[0] : layer->bias;
}

/* The type of the parameters; f32 where there are none. */
static int32_t dtype_of(const rg_layer *layer)
{
  return first_of(layer) != NULL ? first_of(layer)->_dtype : RG_F32;
}

static int32_t device_of(const rg_layer *layer)
{
  return first_of(layer) != NULL ? first_of(layer)->_device : RG_CPU;
}

rg_status rg_layer_clone(const rg_layer *layer, rg_layer **out)
{
  if (layer == NULL || out == NULL) {
    return rg_fail(RG_EARG, "layer: a pointer is NULL");
  }
  return copy_layer(layer, &(copying){ dtype_of(layer), device_of(layer), false }, out);
}

rg_status rg_layer_to(const rg_layer *layer, int32_t dtype, rg_layer **out)
{
  if (layer == NULL || out == NULL) {
    return rg_fail(RG_EARG, "layer: a pointer is NULL");
  }
  if (dtype != RG_F32 && dtype != RG_F64 && dtype != RG_BF16 && dtype != RG_F16) {
    return rg_fail(RG_EDTYPE, "layer: parameters cannot be %s, only a float type",
                   rg_dtype_name(dtype));
  }
  return copy_layer(layer, &(copying){ dtype, device_of(layer), false }, out);
}

rg_status rg_layer_to_device(const rg_layer *layer, int32_t device, rg_layer **out)
{
  if (layer == NULL || out == NULL) {
    return rg_fail(RG_EARG, "layer: a pointer is NULL");
  }
  RG_TRY(rg_device_open(device));
  return copy_layer(layer, &(copying){ dtype_of(layer), device, false }, out);
}

rg_status rg_layer_replica(const rg_layer *layer, int32_t device, rg_layer **out)
{
  if (layer == NULL || out == NULL) {
    return rg_fail(RG_EARG, "layer: a pointer is NULL");
  }
  RG_TRY(rg_device_open(device));
  return copy_layer(layer, &(copying){ .device = device, .flows = true }, out);
}

/* -- Use --------------------------------------------------------------------------------------- */

rg_status rg_layer_forward(const rg_layer *layer, const rg_tensor *x, rg_tensor **out)
{
  if (layer == NULL) {
    return rg_fail(RG_EARG, "layer: it is NULL");
  }
  rg_tensor *const *part = layer->part;
  double p = layer->training ? layer->p : 0;
  int32_t terms = (int32_t)layer->n_terms;

  switch (layer->kind) {
  case RG_LAYER_LINEAR:
    return p > 0 ? rg_linear_dropout(x, part[0], layer->bias, layer->act, p, NULL, out)
                 : rg_linear(x, part[0], layer->bias, layer->act, out);
  case RG_LAYER_LOWRANK:
    return rg_lowrank_linear(x, part[0], part[1], layer->bias, layer->act, out);
  case RG_LAYER_NORM:
    return rg_layer_norm(x, part[0], layer->bias, layer->eps, layer->rms, out);
  case RG_LAYER_EMBEDDING:
    return rg_take(part[0], x, out);
  case RG_LAYER_CONV2D: {
    rg_conv2d_options options = layer->conv;

    options.act = layer->act;
    return rg_conv2d(x, part[0], layer->bias, &options, out);
  }
  default:
    break;
  }
  if (layer->form == RG_SIGNS_BITS) {
    return rg_sketched_linear_bits(x, part[0], part[1], part[2], part[3], layer->bias, terms,
                                   layer->act, p, NULL, out);
  }
  if (layer->form == RG_SIGNS_SEED) {
    return rg_sketched_linear_seed(x, part[0], part[1], part[2], layer->bias, terms, layer->act, p,
                                   NULL, out);
  }
  return rg_sketched_linear(x, part[0], part[1], layer->bias, terms, layer->act, p, NULL, out);
}

void rg_layer_set_training(rg_layer *layer, int32_t on)
{
  if (layer != NULL) {
    layer->training = on != 0;
  }
}

int32_t rg_layer_training(const rg_layer *layer)
{
  return layer != NULL && layer->training;
}

rg_status rg_layer_set_act(rg_layer *layer, int32_t act)
{
  if (layer == NULL || act < 0 || act >= RG_ACT_COUNT) {
    return rg_fail(RG_EARG, "layer: there is no activation %d", act);
  }
  layer->act = act;
  return RG_OK;
}

rg_status rg_layer_set_dropout(rg_layer *layer, double p)
{
  if (layer == NULL || !(p >= 0 && p < 1)) {
    return rg_fail(RG_EARG, "layer: the dropout probability %g is not in [0, 1)", p);
  }
  if (layer->kind != RG_LAYER_LINEAR && layer->kind != RG_LAYER_SKLINEAR) {
    return rg_fail(RG_ENOSUP, "layer: dropout in the same pass is of dense and sketched layers");
  }
  layer->p = p;
  return RG_OK;
}

/* -- Facts ------------------------------------------------------------------------------------- */

rg_status rg_layer_facts_of(const rg_layer *layer, rg_layer_facts *out)
{
  rg_layer_facts f = { 0 };
  int64_t weight_bytes = 0;

  if (layer == NULL || out == NULL) {
    return rg_fail(RG_EARG, "layer: a pointer is NULL");
  }
  f.kind = layer->kind;
  f.dtype = dtype_of(layer);
  f.form = layer->form;
  f.act = layer->act;
  f.n_in = layer->n_in;
  f.n_out = layer->n_out;
  f.num_terms = layer->n_terms;
  f.low_rank = layer->rank;
  f.p = layer->p;
  int64_t both = layer->n_in + layer->n_out;
  int64_t n_bias = layer->bias != NULL ? layer->n_out : 0;
  switch (layer->kind) {
  case RG_LAYER_LINEAR:
    f.trainable_count = f.stored_count = layer->n_in * layer->n_out;
    break;
  case RG_LAYER_LOWRANK:
    f.trainable_count = f.stored_count = layer->rank * both;
    break;
  case RG_LAYER_CONV2D:
  case RG_LAYER_EMBEDDING:
  case RG_LAYER_NORM:
    f.trainable_count = f.stored_count = layer->part[0] != NULL ? layer->part[0]->_count : 0;
    break;
  default:
    f.trainable_count = layer->n_terms * layer->rank * both;
    f.stored_count = 2 * f.trainable_count;
    break;
  }
  f.flops_per_row = 2.0 * (double)f.stored_count;
  if (layer->kind == RG_LAYER_NORM || layer->kind == RG_LAYER_EMBEDDING) {
    f.flops_per_row = layer->kind == RG_LAYER_NORM ? 8.0 * (double)layer->n_in : 0;
  }
  f.trainable_count += n_bias;
  f.stored_count += n_bias;
  for (int32_t i = 0; i < rg_layer_parts(layer); i++) {
    weight_bytes += rg_tensor_bytes(layer->part[i]);
    f.packed_bytes += rg_derived_bytes(layer->part[i]->_storage);
  }
  f.stored_bytes = weight_bytes + (layer->bias != NULL ? rg_tensor_bytes(layer->bias) : 0);
  f.exceeds_dense = layer->kind <= RG_LAYER_SKLINEAR &&
                    weight_bytes > layer->n_in * layer->n_out * rg_dtype_bytes(f.dtype);
  *out = f;
  return RG_OK;
}

/* (x y)' out of x [a x b] and y [b x c], times scale. */
static rg_status turned_product(const rg_tensor *x, const rg_tensor *y, double scale,
                                rg_tensor **out)
{
  rg_tensor *xt = NULL;
  rg_tensor *yt = NULL;
  rg_tensor *made = NULL;
  rg_status status = rg_transpose(x, 0, 1, &xt);

  if (status == RG_OK) {
    status = rg_transpose(y, 0, 1, &yt);
  }
  if (status == RG_OK) {
    status = rg_matmul(yt, xt, &made);
  }
  if (status == RG_OK && scale != 1.0) {
    status = rg_mul_scalar_(made, scale);
  }
  rg_tensor_release(xt);
  rg_tensor_release(yt);
  if (status != RG_OK) {
    rg_tensor_release(made);
    return status;
  }
  *out = made;
  return RG_OK;
}

rg_status rg_layer_weight(const rg_layer *layer, rg_tensor **out)
{
  rg_tensor *left, *right;
  rg_status status;

  if (layer == NULL || out == NULL) {
    return rg_fail(RG_EARG, "layer: a pointer is NULL");
  }
  if (layer->kind == RG_LAYER_NORM && layer->part[0] == NULL) {
    return rg_fail(RG_EARG, "layer: this normalisation has no weight");
  }
  if (layer->kind != RG_LAYER_LOWRANK && layer->kind != RG_LAYER_SKLINEAR) {
    return rg_clone(layer->part[0], out);
  }
  if (layer->kind == RG_LAYER_LOWRANK) {
    return turned_product(layer->part[0], layer->part[1], 1.0, out);
  }
  RG_TRY(rg_sketch_factors(layer, &left, &right));
  status = turned_product(left, right, 1.0 / (2.0 * (double)layer->n_terms), out);
  rg_tensor_release(left);
  rg_tensor_release(right);
  return status;
}
