/* SPDX-License-Identifier: MIT */
/*
** Elementwise fusion: where a chain begins, goes on and ends, one condition after the other, and
** what the node that is made of it says of itself.
*/
#include "fuses.h"
#include "op/cast.h"
#include "op/copy.h"

extern const rg_op rg_op_view, rg_op_tanh;

static int32_t shaped(rg_graph *g, int32_t kind, const rg_meta *meta)
{
  int32_t storage;
  int32_t value;

  must(rg_ir_storage_new(g, &storage));
  must(rg_ir_value_add(g, kind, meta, RG_CPU, storage, NULL, &value));
  if (kind == RG_VALUE_INPUT) {
    must(rg_ir_graph_input(g, value));
  } else if (kind == RG_VALUE_STATE) {
    must(rg_ir_graph_state(g, value));
  }
  return value;
}

/* The same elements once more, as another view. */
static int32_t again(rg_graph *g, int32_t x)
{
  const rg_shape_args same = { .shape = { .n = 2, .at = { 3, 3 } } };

  return viewed(g, &rg_op_view, x, &same, rg_ir_value_at(g, x)->meta);
}

static int32_t product(rg_graph *g, int32_t x, int32_t w)
{
  static const char zero[64];

  return node_of(g, &rg_op_linear, (const int32_t[]){ x, w, -1 }, 3, zero, -1);
}

/* -- What stands between two links --------------------------------------------------------- */

enum { NOTHING, VIEW, PRODUCT, FILL, UNWRITTEN, COMPOUND, N_BETWEEN };

static void put_between(rg_graph *g, int32_t which, int32_t x)
{
  int32_t node;

  if (which == VIEW) {
    returned(g, transposed(g, x), "");
  } else if (which == PRODUCT) {
    returned(g, product(g, x, x), "");
  } else if (which == FILL || which == UNWRITTEN) {
    int32_t y = filled(g, 0, 3);

    rg_ir_node_at(g, producer(g, y))->unwritten = which == UNWRITTEN;
    returned(g, y, "");
  } else if (which == COMPOUND) {
    must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &(rg_softmax_args){ .axis = 1 }, &node));
    must(rg_ir_begin(g, node));
    int32_t y = transposed(g, x);

    rg_ir_end(g);
    must(rg_ir_output_share(g, node, y));
    rg_ir_results_end(g, node);
    returned(g, y, "");
  }
}

static void test_between(void)
{
  static const struct {
    const char *apart; /* the second link reads nothing of the first */
    const char *behind;
  } want[N_BETWEEN] = {
    [NOTHING] = { "[gelu,neg]", "[gelu,neg]" },
    [VIEW] = { "transpose [gelu,neg]", "transpose [gelu,neg]" },
    [PRODUCT] = { "gelu linear neg", "linear [gelu,neg]" },
    [FILL] = { "gelu fill neg", "fill [gelu,neg]" },
    [UNWRITTEN] = { "fill [gelu,neg]", "fill [gelu,neg]" },
    [COMPOUND] = { "softmax transpose [gelu,neg]", "softmax transpose [gelu,neg]" },
  };

  for (int32_t i = 0; i < N_BETWEEN; i++) {
    for (int32_t reads = 0; reads < 2; reads++) {
      int32_t x;
      rg_graph *g = graph(&x);
      int32_t a = unary(g, &rg_op_gelu, x);

      put_between(g, i, x);
      returned(g, a, "");
      returned(g, unary(g, &rg_op_neg, reads ? a : x), "");
      fuses(g, reads ? want[i].behind : want[i].apart, reads ? "a reader" : "who reads nothing");
    }
  }
}

/* Behind other work: by which input the next link reads the chain, and what is kept for it. */
static void test_gaps(void)
{
  for (int32_t which = 0; which < 2; which++) {
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t w = outside(g, RG_VALUE_INPUT, "w", 3, 3);
    int32_t a = unary(g, &rg_op_gelu, x);

    returned(g, product(g, w, w), "");
    returned(g, which == 0 ? added(g, a, w) : added(g, w, a), "");
    fuses(g, "linear [gelu,add]", "a reader by one of its inputs");
  }
  for (int32_t which = 0; which < 3; which++) {
    static const char *const want[] = { "linear [add,neg]", "add linear neg", "gelu linear neg" };
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t w = outside(g, RG_VALUE_INPUT, "w", 3, 3);
    int32_t a = which == 0   ? with_number(g, RG_OP_ADD, x, 2, 0, -1)
                : which == 1 ? added(g, x, w)
                             : unary(g, &rg_op_gelu, x);

    returned(g, product(g, w, w), "");
    int32_t y = unary(g, &rg_op_neg, a);

    rg_ir_node_at(g, producer(g, a))->recomputed = which == 2;
    rg_ir_node_at(g, producer(g, y))->recomputed = which == 2;
    returned(g, y, "");
    fuses(g, want[which], "as many bytes kept as spared, more, and what is recomputed");
  }
  for (int32_t n = 4; n <= 5; n++) { /* inputs */
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t sum = x;

    for (int32_t i = 1; i < n; i++) {
      sum = added(g, sum, outside(g, RG_VALUE_INPUT, "more", 3, 3));
    }
    returned(g, sum, "");
    returned(g, unary(g, &rg_op_neg, outside(g, RG_VALUE_INPUT, "other", 3, 3)), "");
    fuses(g, n == 4 ? "[add,add,add,neg]" : "[add,add,add,add] neg",
          "what reads nothing of it joins while there is little to keep");
  }
}

/* -- Which nodes are alike ------------------------------------------------------------------ */

static void test_alike(void)
{
  static const char *const what[] = { "recomputed", "derived", "deterministic", "vendor",
                                      "autotune",   "tf32",    "gemm",          "autocast" };
  static const bool joins[] = { false, false, false, false, false, false, false, true };

  for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
    for (int32_t first = 0; first < 2; first++) {
      int32_t x;
      rg_graph *g = graph(&x);
      int32_t a = unary(g, &rg_op_gelu, x);
      int32_t b = unary(g, &rg_op_neg, a);
      int32_t node = producer(g, first ? a : b);
      rg_graph_modes modes = *rg_ir_modes_of(g, rg_ir_node_at(g, node)->modes);

      rg_ir_node_at(g, node)->recomputed = i == 0;
      rg_ir_node_at(g, node)->derived = i == 1;
      modes.deterministic = i == 2;
      modes.vendor = i != 3;
      modes.autotune = i != 4;
      modes.tf32 = i == 5;
      modes.gemm = i == 6;
      modes.autocast = i == 7 ? RG_BF16 : -1;
      must(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, node)->modes));
      returned(g, b, "");
      fuses(g, joins[i] ? "[gelu,neg]" : "gelu neg", what[i]);
    }
  }
}

static void test_shapes(void)
{
  static const rg_meta other[] = {
    { RG_F32, 2, { 3, 3 } }, { RG_F32, 2, { 4, 3 } },    { RG_F32, 2, { 3, 4 } },
    { RG_F32, 1, { 3 } },    { RG_F32, 3, { 3, 3, 1 } }, { RG_F64, 2, { 3, 3 } },
    { RG_F16, 2, { 3, 3 } }, { RG_BF16, 2, { 3, 3 } },   { RG_I32, 2, { 3, 3 } },
    { RG_F32, 2, { 0, 3 } },
  };

  for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
    for (int32_t first = 0; first < 2; first++) {
      int32_t x;
      rg_graph *g = graph(&x);
      int32_t y = shaped(g, RG_VALUE_INPUT, &other[i]);

      returned(g, unary(g, &rg_op_neg, first ? y : x), "");
      returned(g, unary(g, &rg_op_relu, first ? x : y), "");
      fuses(g, i == 0 || i == 6 || i == 7 ? "[neg,relu]" : "neg relu", "of another shape or type");
    }
  }
  for (int32_t twice = 0; twice < 2; twice++) { /* what no chain is of, alone */
    const rg_meta meta = { twice ? RG_I32 : RG_F32, 2, { twice ? 3 : 0, 3 } };
    rg_graph *g;

    must(rg_ir_new(&g));
    returned(g, unary(g, &rg_op_relu, unary(g, &rg_op_neg, shaped(g, RG_VALUE_INPUT, &meta))), "");
    fuses(g, "neg relu", "no elements, or whole numbers");
  }
}

/* f64 is computed on a CPU alone. */
static void test_devices(void)
{
  for (int32_t i = 0; i < 4; i++) {
    const rg_meta meta = { i % 2 ? RG_F64 : RG_F32, 2, { 3, 3 } };
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t x = shaped(g, RG_VALUE_INPUT, &meta);
    int32_t y = unary(g, &rg_op_neg, x);
    int32_t z = unary(g, &rg_op_relu, y);

    for (int32_t k = 0; k < 3; k++) {
      rg_ir_value_at(g, k == 0 ? x : k == 1 ? y : z)->device = i / 2;
    }
    returned(g, z, "");
    fuses(g, i == 3 ? "neg relu" : "[neg,relu]", "on a device");
  }
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t other = outside(g, RG_VALUE_INPUT, "other", 3, 3);
  int32_t y = unary(g, &rg_op_relu, other);

  rg_ir_value_at(g, other)->device = 1;
  rg_ir_value_at(g, y)->device = 1;
  returned(g, unary(g, &rg_op_neg, x), "");
  returned(g, y, "");
  fuses(g, "relu neg", "on two devices");
}

static int32_t cast(rg_graph *g, int32_t x, int32_t dtype)
{
  return node_of(g, rg_ops[RG_OP_CAST], &x, 1, &(rg_cast_args){ .dtype = dtype }, -1);
}

static int32_t copied(rg_graph *g, int32_t x, int32_t dtype)
{
  rg_copy_args args = { .meta = rg_ir_value_at(g, x)->meta };

  args.meta.dtype = dtype;
  return node_of(g, &rg_op_copy, &x, 1, &args, -1);
}

/* A copy of a half type keeps the bits of a signalling nan: it is no link unless one made them. */
static void test_casts(void)
{
  static const struct {
    int32_t from;
    int32_t to;
    const char *want;
  } each[] = {
    { RG_F32, RG_F32, "[copy,neg]" },  { RG_F32, RG_BF16, "[copy,neg]" },
    { RG_BF16, RG_F32, "[copy,neg]" }, { RG_BF16, RG_F16, "[copy,neg]" },
    { RG_BF16, RG_BF16, "copy neg" },  { RG_F16, RG_F16, "copy neg" },
    { RG_F64, RG_F64, "[copy,neg]" },  { RG_F64, RG_F32, "copy neg" },
    { RG_F32, RG_F64, "copy neg" },    { RG_I32, RG_F32, "copy neg" },
  };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    const rg_meta meta = { each[i].from, 2, { 3, 3 } };
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t x = shaped(g, RG_VALUE_INPUT, &meta);

    returned(g, unary(g, &rg_op_neg, copied(g, x, each[i].to)), "");
    rg_graph *out = after(g, FUSION);
    const int32_t *order;
    int32_t n;

    must(rg_ir_order(out, &order, NULL, &n));
    is_int(n, strchr(each[i].want, '[') != NULL ? 1 : 2, each[i].want);
    rg_graph_release(out);
  }
  for (int32_t links = 23; links <= 24; links++) { /* before the copy */
    const rg_meta meta = { RG_BF16, 1, { 5 } };
    rg_graph *g;
    const int32_t *order;
    int32_t n;

    must(rg_ir_new(&g));
    int32_t y = shaped(g, RG_VALUE_INPUT, &meta);

    for (int32_t i = 0; i < links; i++) {
      y = unary(g, &rg_op_neg, y);
    }
    returned(g, unary(g, &rg_op_relu, copied(g, y, RG_BF16)), "");
    rg_graph *out = after(g, FUSION);

    must(rg_ir_order(out, &order, NULL, &n));
    is_int(n, links == 23 ? 2 : 3, "a copy is the 24th link, and none where a chain is full");
    ok(rg_ir_node_at(out, order[n - 1])->op == &rg_op_relu, "with relu behind it");
    rg_graph_release(out);
  }
  int32_t x;
  rg_graph *g = graph(&x);

  returned(g, unary(g, &rg_op_neg, cast(g, unary(g, &rg_op_gelu, x), RG_BF16)), "");
  fuses(g, "[gelu,cast,neg]", "a cast is a link");
}

static void test_room(void)
{
  for (int32_t n = 24; n <= 26; n++) {
    int32_t x;
    rg_graph *g = graph(&x);
    rg_graph *out;
    const int32_t *order;
    int32_t nodes;

    for (int32_t i = 0; i < n; i++) {
      x = unary(g, &rg_op_neg, x);
    }
    returned(g, x, "");
    out = after(g, FUSION);
    must(rg_ir_order(out, &order, NULL, &nodes));
    is_int(nodes, n == 24 ? 1 : 2, "24 links are a chain");
    const rg_ir_node *first = rg_ir_node_at(out, order[0]);

    is_int(((const rg_fused_args *)rg_ir_args(out, first))->links.n, 24, "which is full then");
    is_int(rg_ir_node_at(out, order[nodes - 1])->op->id == RG_OP_FUSED, n != 25,
           "and one alone is none");
    rg_graph_release(out);
  }
}

/* -- Memory -------------------------------------------------------------------------------- */

static void test_ends(void)
{
  for (int32_t which = 0; which < 2; which++) {
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t w = outside(g, RG_VALUE_INPUT, "w", 3, 3);
    int32_t a = unary(g, &rg_op_gelu, x);

    returned(g, product(g, which == 0 ? a : w, which == 0 ? w : a), "");
    returned(g, unary(g, &rg_op_neg, a), "");
    fuses(g, "gelu linear neg", "a reader that is no link ends it, by each input");
  }
  for (int32_t which = 0; which < 3; which++) {
    const rg_fill_args zero = { .meta = { RG_F32, 2, { 3, 3 } } };
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t state = outside(g, RG_VALUE_STATE, "state", 3, 3);
    int32_t other = outside(g, RG_VALUE_STATE, "other", 3, 3);
    int32_t a = which == 1 ? over(g, &rg_op_gelu, state) : unary(g, &rg_op_gelu, state);
    int32_t at = which == 0 ? state : which == 1 ? a : other;

    (void)node_of(g, rg_ops[RG_OP_FILL], NULL, 0, &zero, at);
    if (which != 1) {
      returned(g, unary(g, &rg_op_neg, a), "");
    } else {
      returned(g, unary(g, &rg_op_neg, x), "");
    }
    fuses(g, which == 2 ? "fill [gelu,neg]" : "gelu fill neg",
          "so does a write to what it reads or writes");
  }
}

static void test_views(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t state = outside(g, RG_VALUE_STATE, "state", 3, 3);
  int32_t view = again(g, state);

  returned(g, unary(g, &rg_op_neg, state), "");
  returned(g, unary(g, &rg_op_gelu, view), "");
  fuses(g, "view [neg,gelu]", "two views that are read");

  for (int32_t i = 0; i < 3; i++) {
    static const char *const want[] = { "view [neg,relu]", "view neg relu",
                                        "view [neg,gelu] relu" };

    g = graph(&x);
    state = outside(g, RG_VALUE_STATE, "state", 3, 3);
    view = again(g, state);
    returned(g, unary(g, &rg_op_neg, i == 0 ? view : state), "");
    if (i == 2) {
      returned(g, unary(g, &rg_op_gelu, view), "");
    }
    (void)over(g, &rg_op_relu, view);
    fuses(g, want[i], "one of them is written to");
  }
  for (int32_t i = 0; i < 2; i++) {
    g = graph(&x);
    state = outside(g, RG_VALUE_STATE, "state", 3, 3);
    view = again(g, state);
    int32_t a = unary(g, &rg_op_neg, x);

    (void)node_of(g, &rg_op_add, (const int32_t[]){ i == 0 ? view : state, a }, 2,
                  &(rg_binary_args){ 0 }, view);
    returned(g, a, "");
    fuses(g, i == 0 ? "view [neg,add]" : "view neg add", "a link that sees two views by itself");
  }
  for (int32_t i = 0; i < 2; i++) { /* the first of a chain */
    g = graph(&x);
    state = outside(g, RG_VALUE_STATE, "state", 3, 3);
    view = again(g, state);
    int32_t a = node_of(g, &rg_op_add, (const int32_t[]){ x, i == 0 ? view : state }, 2,
                        &(rg_binary_args){ 0 }, view);

    returned(g, unary(g, &rg_op_neg, a), "");
    fuses(g, i == 0 ? "view [add,neg]" : "view add neg", "also the first");
  }
}

/* Links of which one is written over, or is nobody's. */
static void test_stored(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t a = unary(g, &rg_op_gelu, x);
  int32_t b = unary(g, &rg_op_neg, x);
  int32_t c = added(g, b, a);

  returned(g, c, "");
  returned(g, over(g, &rg_op_relu, a), "");
  fuses(g, "[gelu,neg,add,relu]", "what a link reads and another one writes over");

  g = graph(&x);
  a = unary(g, &rg_op_gelu, x);
  returned(g, a, "");
  (void)unary(g, &rg_op_neg, a);
  fuses(g, "gelu neg", "nobody reads the last one");

  g = graph(&x);
  a = unary(g, &rg_op_gelu, x);
  b = unary(g, &rg_op_tanh, a);
  returned(g, b, "");
  (void)unary(g, &rg_op_neg, a);
  fuses(g, "[gelu,tanh] neg", "the others are fused then");

  g = graph(&x);
  int32_t state = outside(g, RG_VALUE_STATE, "state", 3, 3);

  a = over(g, &rg_op_gelu, over(g, &rg_op_neg, state));
  returned(g, unary(g, &rg_op_tanh, a), "");
  rg_graph *out = after(g, FUSION);
  const rg_ir_node *node = rg_ir_node_at(out, 0);
  const rg_ir_value *stored = rg_ir_value_at(out, rg_ir_outputs(out, node)[0]);

  is_int(node->n_out, 2, "of two writes in place the last is stored");
  is_int(stored->version, 1, "as one version");
  ok(stored->was != RG_IR_NONE && rg_ir_value_at(out, stored->was)->kind == RG_VALUE_STATE,
     "over what was there before");
  rg_graph_release(out);
}

/* Two writes become one: who writes later makes the version behind that. */
static void test_versions(void)
{
  const rg_fill_args zero = { .meta = { RG_F32, 2, { 3, 3 } } };

  for (int32_t i = 0; i < 2; i++) {
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t a = i == 0 ? outside(g, RG_VALUE_STATE, "state", 3, 3) : product(g, x, x);

    a = over(g, &rg_op_gelu, over(g, &rg_op_neg, a));
    a = node_of(g, rg_ops[RG_OP_FILL], NULL, 0, &zero, a);
    a = over(g, &rg_op_relu, over(g, &rg_op_tanh, a));
    returned(g, unary(g, &rg_op_neg, a), "");
    rg_graph *out = after(g, FUSION);

    is_int(rg_ir_value_at(out, rg_ir_outputs(out, rg_ir_node_at(out, i + 2))[0])->version, 3,
           "three writes are left");
    rg_graph_release(out);
  }
}

/* -- What the node says ------------------------------------------------------------------------ */

static void test_node(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t y = outside(g, RG_VALUE_INPUT, "y", 1, 3);
  int32_t a = unary(g, &rg_op_neg, x);
  int32_t b = added(g, a, y);

  rg_ir_name(g, b, text_in(g, "b"));
  for (int32_t i = 0; i < 2; i++) {
    rg_ir_node *node = rg_ir_node_at(g, producer(g, i == 0 ? a : b));
    rg_graph_modes modes = *rg_ir_modes_of(g, node->modes);

    node->module = text_in(g, i == 0 ? "first" : "last");
    node->line = text_in(g, i == 0 ? "net.lua:1" : "net.lua:2");
    node->flops = 10 + i;
    node->bytes = 1000;
    node->derived = true;
    modes.weight_cast = RG_F16;
    modes.autocast = i == 0 ? -1 : RG_BF16;
    must(rg_ir_modes_add(g, &modes, &node->modes));
  }
  returned(g, b, "");
  rg_graph *out = after(g, FUSION);
  const rg_ir_node *node = rg_ir_node_at(out, 0);
  const rg_graph_modes *modes = rg_ir_modes_of(out, node->modes);
  const rg_ir_value *made = rg_ir_value_at(out, rg_ir_outputs(out, node)[0]);

  is_int(node->op->id, RG_OP_FUSED, "one node");
  ok(strcmp(rg_ir_text_of(out, node->module), "first") == 0, "in the first one's module");
  ok(strcmp(rg_ir_text_of(out, node->line), "net.lua:2") == 0, "at the last one's line");
  ok(strcmp(rg_ir_text_of(out, made->name), "b") == 0, "whose result has its name");
  ok(node->flops == 21, "with the flops of all");
  ok(node->bytes == 9 * 4 + 3 * 4 + 9 * 4, "and the bytes that cross memory");
  ok(node->derived && node->complete, "derived as they are");
  is_int(modes->compute, -1, "inputs are read as they are");
  is_int(modes->weight_cast, -1, "weights too");
  is_int(modes->autocast, RG_BF16, "in the last one's modes");
  rg_graph_release(out);
}

int main(void)
{
  setenv("RIDGE_CHECK", "1", 1);
  test_between();
  test_gaps();
  test_alike();
  test_shapes();
  test_devices();
  test_casts();
  test_room();
  test_ends();
  test_views();
  test_stored();
  test_versions();
  test_node();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
