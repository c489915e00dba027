// SPDX-License-Identifier: MIT
//
// The graphs that ridge gives to cuDNN, planned by cuDNN itself for a described H200: heuristics
// must propose an engine for each, and the first engine's plan must come as far as it can without a
// GPU.  Engines that are in the library are planned to the end.  Those that are compiled late pass
// through NVRTC and stop where the code would be loaded: cuLibraryLoadData of the toolkit's stub
// driver answers 34 (CUDA_ERROR_STUB_LIBRARY).  Without any driver library they would not even be
// proposed, so the stub is opened first; cuDNN then finds it by its name.
//
// Without cuDNN everything is skipped.
#include "gpu/dnn/graph.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#if RG_HAS_DNN

static int tests, failures;
static rg_dnn_target target;

static bool ok(bool good, const std::string &what)
{
  tests++;
  failures += !good;
  printf("%s %d - %s\n", good ? "ok" : "not ok", tests, what.c_str());
  fflush(stdout);  // a watchdog asks which was the last
  return good;
}

// -- Planning ----------------------------------------------------------------------------

typedef void Build(rg_dnn_graph *g, const void *what);

static const rg_dnn_rules ANY = { false, false, false };
static const rg_dnn_rules EXACT = { false, true, false };
static const rg_dnn_rules SINGLE = { false, true, true };
static const rg_dnn_rules SAME_BITS = { true, true, false };
static const rg_dnn_rules SINGLE_SAME_BITS = { true, true, true };

static int32_t engines(Build *build, const void *what, const rg_dnn_rules &rules)
{
  rg_dnn_choice choice[RG_DNN_CHOICES];
  rg_dnn_graph *g = rg_dnn_begin();
  build(g, what);
  rg_dnn_close(g, target);
  int32_t n = rg_dnn_choices(g, target, rules, choice);
  rg_dnn_drop(g);
  return n;
}

// As far as a plan comes here.
static bool as_far_as_possible(cudnnStatus_t status, const char *why)
{
  return status == CUDNN_STATUS_SUCCESS ||
         (status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER &&
          strstr(why, "cuLibraryLoadData") != nullptr && strstr(why, "(34)") != nullptr);
}

static void plans(const std::string &name, Build *build, const void *what,
                  const rg_dnn_rules &rules)
{
  rg_dnn_choice choice[RG_DNN_CHOICES];
  rg_dnn_graph *g = rg_dnn_begin();
  build(g, what);
  rg_dnn_close(g, target);
  int32_t n = rg_dnn_choices(g, target, rules, choice);
  if (!ok(n > 0, name + ": an engine is proposed")) {
    printf("# %s\n", g->why);
  } else {
    cudnnStatus_t status = rg_dnn_plan(g, target, &choice[0]);
    ok(as_far_as_possible(status, g->why), name + ": planned as far as it goes without a GPU");
    printf("# %d engines; %s\n", n, status == CUDNN_STATUS_SUCCESS ? "planned to the end" : g->why);
  }
  rg_dnn_drop(g);
}

// -- Convolutions ------------------------------------------------------------------------

struct Shape {
  int64_t in, out, groups, stride, dilation, low, high;
};

static rg_dnn_layout images(cudnnDataType_t type, int64_t n, int64_t c, int64_t h, int64_t w,
                            bool last)
{
  rg_dnn_layout x = rg_dnn_dense(type, n, c, h, w);
  if (last) {
    x.step[0] = c * h * w;
    x.step[1] = 1;
    x.step[2] = c * w;
    x.step[3] = c;
  }
  return x;
}

static rg_dnn_conv conv_of(int32_t kind, cudnnDataType_t type, const Shape &s, bool last)
{
  rg_dnn_conv c;
  memset(&c, 0, sizeof(c));
  int64_t size = (28 + s.low + s.high - 2 * s.dilation - 1) / s.stride + 1;
  c.kind = kind;
  c.x = images(type, 8, s.in, 28, 28, last);
  c.w = images(type, s.out, s.in / s.groups, 3, 3, last);
  c.y = images(type, 8, s.out, size, size, last);
  for (int i = 0; i < 2; i++) {
    c.o.stride[i] = s.stride;
    c.o.dilation[i] = s.dilation;
    c.o.pad_low[i] = s.low;
    c.o.pad_high[i] = s.high;
  }
  return c;
}

static void convolutions(void)
{
  static const struct {
    const char *name;
    Shape shape;
  } shapes[] = { { "plain", { 64, 128, 1, 1, 1, 1, 1 } },
                 { "of 4 groups", { 64, 128, 4, 1, 1, 1, 1 } },
                 { "of 3 channels by 2", { 3, 64, 1, 2, 1, 1, 1 } },
                 { "dilated, padded unevenly", { 64, 128, 1, 1, 2, 2, 1 } } };
  static const char *const kinds[] = { "conv", "conv back to data", "conv back to weight" };

  for (int32_t kind = RG_DNN_FORWARD; kind <= RG_DNN_BACK_WEIGHT; kind++) {
    for (bool last : { false, true }) {
      for (const auto &s : shapes) {
        for (cudnnDataType_t type : { CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16 }) {
          bool single = type == CUDNN_DATA_FLOAT;
          rg_dnn_conv c = conv_of(kind, type, s.shape, last);
          std::string name = std::string(kinds[kind]) + " " + s.name +
                             (single ? ", f32" : ", bf16") + (last ? ", channels last" : "");
          plans(name, rg_dnn_conv_build, &c, single ? SINGLE : EXACT);
        }
      }
    }
  }
}

// What one graph does at once; the type of the bias is that of y, or f32.
static void fused(void)
{
  const Shape s = { 64, 128, 1, 1, 1, 1, 1 };
  rg_dnn_conv c = conv_of(RG_DNN_FORWARD, CUDNN_DATA_BFLOAT16, s, true);
  c.bias = 1;
  c.b = images(CUDNN_DATA_FLOAT, 1, 128, 1, 1, true);
  plans("conv + f32 bias, bf16", rg_dnn_conv_build, &c, EXACT);
  c.b.type = CUDNN_DATA_BFLOAT16;
  c.act = RG_ACT_GELU;
  plans("gelu(conv + bias), bf16", rg_dnn_conv_build, &c, EXACT);
  c.bias = 0;
  c.act = RG_ACT_RELU;
  plans("relu(conv), bf16", rg_dnn_conv_build, &c, EXACT);
  c = conv_of(RG_DNN_FORWARD, CUDNN_DATA_BFLOAT16, s, false);
  c.act = RG_ACT_RELU;
  printf("# with channels first: %d engines\n", engines(rg_dnn_conv_build, &c, EXACT));
}

// -- Attention ---------------------------------------------------------------------------

static rg_dnn_sdpa sdpa_of(int64_t n, int64_t m, int64_t d, bool causal)
{
  const cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  rg_dnn_sdpa a;
  memset(&a, 0, sizeof(a));
  a.q = a.o = a.d_o = a.dq = rg_dnn_dense(type, 2, 8, n, d);
  a.k = a.v = a.dk = a.dv = rg_dnn_dense(type, 2, 8, m, d);
  a.lse = rg_dnn_dense(CUDNN_DATA_FLOAT, 2, 8, n, 1);
  a.scale = 0.125f;
  a.causal = causal;
  return a;
}

static void attention(void)
{
  for (int64_t d : { 64, 128 }) {
    for (bool causal : { false, true }) {
      rg_dnn_sdpa a = sdpa_of(1024, 1024, d, causal);
      std::string what = (causal ? "causal, d " : "full, d ") + std::to_string(d);
      plans("attention " + what, rg_dnn_sdpa_build, &a, EXACT);
      plans("attention back " + what, rg_dnn_sdpa_back_build, &a, EXACT);
    }
  }
  rg_dnn_sdpa a = sdpa_of(1000, 777, 64, true);
  plans("attention of odd lengths", rg_dnn_sdpa_build, &a, EXACT);
  plans("attention back of odd lengths", rg_dnn_sdpa_back_build, &a, EXACT);
  a.lse.shape[0] = 0;
  plans("attention without lse", rg_dnn_sdpa_build, &a, EXACT);
  a = sdpa_of(1024, 1024, 64, true);
  a.deterministic = 1;
  plans("attention back, the same bits", rg_dnn_sdpa_back_build, &a, SAME_BITS);
}

// -- Rules -------------------------------------------------------------------------------

static void rules(void)
{
  const Shape s = { 64, 128, 1, 1, 1, 1, 1 };
  rg_dnn_conv c = conv_of(RG_DNN_FORWARD, CUDNN_DATA_FLOAT, s, true);
  int32_t any = engines(rg_dnn_conv_build, &c, ANY);
  int32_t single = engines(rg_dnn_conv_build, &c, SINGLE);
  ok(single > 0 && single < any, "f32: some engines are left out without TF32");
  ok(single < engines(rg_dnn_conv_build, &c, EXACT), "f32: those are engines with tensor cores");
  c = conv_of(RG_DNN_BACK_DATA, CUDNN_DATA_FLOAT, s, true);
  single = engines(rg_dnn_conv_build, &c, SINGLE);
  int32_t same = engines(rg_dnn_conv_build, &c, SINGLE_SAME_BITS);
  ok(same > 0 && same < single, "some are left out where the bits must be the same");
}

// A product of matrices that do not fit.
static void wrong(rg_dnn_graph *g, const void *)
{
  rg_dnn_desc a = rg_dnn_given(g, 1, rg_dnn_dense(CUDNN_DATA_FLOAT, 1, 1, 4, 5));
  rg_dnn_desc b = rg_dnn_given(g, 2, rg_dnn_dense(CUDNN_DATA_FLOAT, 1, 1, 6, 7));
  (void)rg_dnn_matmul(g, a, b, rg_dnn_given(g, 3, rg_dnn_dense(CUDNN_DATA_FLOAT, 1, 1, 4, 7)));
}

static void errors(void)
{
  rg_dnn_choice choice[RG_DNN_CHOICES];
  rg_dnn_graph *g = rg_dnn_begin();
  wrong(g, nullptr);
  rg_dnn_close(g, target);
  ok(rg_dnn_choices(g, target, ANY, choice) == 0 && g->why[0] != '\0',
     "a graph that is wrong is refused with a reason");
  printf("# %s\n", g->why);
  rg_dnn_drop(g);
  const rg_dnn_layout small = rg_dnn_dense(CUDNN_DATA_FLOAT, 1, 1, 4, 8);
  g = rg_dnn_begin();
  rg_dnn_desc x = rg_dnn_given(g, 1, small);
  for (int i = 0; i < RG_DNN_OPS; i++) {
    x = rg_dnn_point(g, CUDNN_POINTWISE_TANH_FWD, x, NULL, rg_dnn_between(g, small));
  }
  ok(g->status == CUDNN_STATUS_SUCCESS, "a graph may be as large as it has room");
  (void)rg_dnn_point(g, CUDNN_POINTWISE_TANH_FWD, x, NULL, rg_dnn_between(g, small));
  ok(strcmp(g->why, "the graph has too many operations") == 0, "and no larger");
  rg_dnn_drop(g);
  // attention in bf16 is of tensor cores alone
  rg_dnn_sdpa a = sdpa_of(1024, 1024, 64, false);
  long long proposed = 0;
  g = rg_dnn_begin();
  rg_dnn_sdpa_build(g, &a);
  rg_dnn_close(g, target);
  ok(rg_dnn_choices(g, target, SINGLE, choice) == 0 &&
         sscanf(g->why, "the rules admit none of %lld engines", &proposed) == 1 && proposed > 0,
     "a graph of which no engine is admitted says so");
  printf("# %s\n", g->why);
  rg_dnn_drop(g);
}

// -- Main --------------------------------------------------------------------------------

static int skip(const char *why)
{
  printf("ok 1 - cuDNN's graphs # SKIP %s\n1..1\n", why);
  return 0;
}

int main(int argc, char **argv)
{
  static char json[1 << 16];
  char why[300];
  const char *path = argc > 1 ? argv[1] : "tests/gpu/h200.json";

  if (dlopen(CUDA_STUB, RTLD_NOW | RTLD_GLOBAL) == nullptr) return skip(dlerror());
  if (rg_dnn_open() == nullptr) return skip(rg_dnn_note());
  FILE *file = fopen(path, "rb");
  if (file == nullptr || fread(json, 1, sizeof(json) - 1, file) == 0) {
    printf("Bail out! %s cannot be read\n", path);
    return 1;
  }
  fclose(file);
  printf("# cuDNN %s, %s\n", rg_dnn_note(), path);
  target.device = rg_dnn_device_of_json(json, why, sizeof(why));
  if (!ok(target.device != nullptr, "a device is described")) {
    printf("# %s\n", why);
  } else {
    convolutions();
    fused();
    attention();
    rules();
    errors();
  }
  printf("1..%d\n", tests);
  return failures > 0;
}

#else

int main(void)
{
  puts("ok 1 - cuDNN's graphs # SKIP cudnn_graph.h is not there\n1..1");
  return 0;
}

#endif
