// SPDX-License-Identifier: MIT
//
// Chains as text, compiled by NVRTC itself for GPUs that are not here: every function, and chains by
// chance, must be accepted and stay in registers.  What the kernels compute is seen on the simulator
// (tests/lua/compiled_spec.lua), where the same text goes to the C++ compiler.
//
// Without NVRTC everything is skipped.
#include "gpu/fused/compiler.h"
#include "gpu/fused/text.h"
#include "op/formulas.h"

#include <elf.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" {
#include "op/list.h"
}

static int tests, failures;

static bool ok(bool good, const std::string &what)
{
  tests++;
  failures += !good;
  printf("%s %d - %s\n", good ? "ok" : "not ok", tests, what.c_str());
  fflush(stdout);  // a watchdog asks which was the last
  return good;
}

// -- Chains ----------------------------------------------------------------------------------

#define ID_OF(NAME, ...) RG_OP_##NAME,
static const int ONE[] = { RG_UNARY_FORMULAS(ID_OF, , , , ) };
static const int TWO[] = { RG_BINARY_FORMULAS(ID_OF, , , ) };
#define ACT_OF(NAME, ...) RG_ACT_##NAME,
static const int ACT[] = { RG_SLOPE_FORMULAS(ACT_OF, , , , ) };
static const int TYPE[] = { RG_F32, RG_F16, RG_BF16 };

static unsigned state = 1;
static int below(int n)
{
  state = (unsigned)((uint64_t)state * 48271 % 2147483647);
  return (int)(state % (unsigned)n);
}
#define ANY(list) list[below(sizeof(list) / sizeof(list[0]))]

static rg_fused_form blank(void)
{
  rg_fused_form f;
  memset(&f, 0, sizeof(f));
  f.narrow = 1;
  return f;
}

static rg_link link_of(int id, int with)
{
  rg_link l = {};
  l.id = (int16_t)id;
  l.load = l.store = RG_FUSED_NONE;
  l.with = (int8_t)with;
  l.dtype = RG_F32;
  return l;
}

// As many links as a chain has room for; wide tensors of every type, read, stored, read again.
static rg_fused_form any_chain(void)
{
  rg_fused_form f = blank();
  f.n = 1 + below(RG_FUSED_LINKS);
  f.narrow = below(2);
  f.packs = 1 + below(2);
  for (int i = 0; i < RG_FUSED_READ; i++) {
    f.in_type[i] = (uint8_t)below(3);
    f.in_lies[i] = (uint8_t)below(4);
  }
  for (int i = 0; i < RG_FUSED_WRITTEN; i++) {
    f.out_type[i] = (uint8_t)below(3);
    f.out_lies[i] = below(3) ? RG_LIES_WHOLE : RG_LIES_LOOSE;
  }
  for (int i = 0; i < f.n; i++) {
    const int kind = below(4);
    const int with = below(3) ? below(RG_FUSED_READ)
                     : below(2) ? RG_FUSED_NUMBER
                                : RG_FUSED_VALUE;
    rg_link *l = &f.link[i];
    *l = kind == 0   ? link_of(ANY(ONE), RG_FUSED_NONE)
         : kind == 1 ? link_of(-1, RG_FUSED_NONE)
         : kind == 2 ? link_of(RG_OP_ACT_BACK, below(RG_FUSED_READ))
                     : link_of(ANY(TWO), with);
    l->act = (int8_t)ANY(ACT);
    l->reversed = (int8_t)(kind == 3 && below(2));
    l->dtype = (int8_t)ANY(TYPE);
    l->number = (float)below(100) / 7;
    l->load = (int8_t)(i == 0 || below(5) == 0 ? below(RG_FUSED_READ) : RG_FUSED_NONE);
    l->store = (int8_t)(i + 1 == f.n ? 0 : below(4) == 0 ? below(RG_FUSED_WRITTEN) : RG_FUSED_NONE);
  }
  return f;
}

// -- Compiling -------------------------------------------------------------------------------

// What the machine code says it needs: attribute `wanted` of section .nv.info of the ELF file, the
// value of its one function; -1 where it does not say.  An entry is a format, an attribute, how many
// bytes follow, and for these attributes the function and the value.
static long noted(const char *code, size_t bytes, int wanted)
{
  Elf64_Ehdr head;
  Elf64_Shdr names, section;
  if (bytes < sizeof(head)) return -1;
  memcpy(&head, code, sizeof(head));
  const size_t table = head.e_shoff;
  if (table + head.e_shnum * sizeof(section) > bytes) return -1;
  memcpy(&names, code + table + head.e_shstrndx * sizeof(names), sizeof(names));
  for (int i = 0; i < head.e_shnum; i++) {
    memcpy(&section, code + table + i * sizeof(section), sizeof(section));
    if (strcmp(code + names.sh_offset + section.sh_name, ".nv.info") != 0) continue;
    for (size_t at = 0; at + 4 <= section.sh_size;) {
      const unsigned char *e = (const unsigned char *)code + section.sh_offset + at;
      const bool follows = e[0] == 4; // else the value is in the two bytes themselves
      if (follows && e[1] == wanted) {
        uint32_t value;
        memcpy(&value, e + 8, 4);
        return (long)value;
      }
      at += 4 + (follows ? e[2] + 256 * e[3] : 0);
    }
  }
  return -1;
}
enum { FRAME_SIZE = 0x11, REGISTERS = 0x2f };

static long most_registers;

static void look(const char *code, size_t bytes, const std::string &what, bool turns)
{
  const long registers = noted(code, bytes, REGISTERS), frame = noted(code, bytes, FRAME_SIZE);
  most_registers = registers > most_registers ? registers : most_registers;
  ok(registers > 0 && registers <= 128, what + ": " + std::to_string(registers) + " registers");
  // sine, cosine and tangent of large numbers may keep digits of pi in memory
  ok(frame == 0 || (turns && frame > 0 && frame <= 64), what + ": " + std::to_string(frame) + " bytes of stack");
}

static bool has(const rg_fused_form &f, int id)
{
  for (int i = 0; i < f.n; i++) {
    if (f.link[i].id == id) return true;
  }
  return false;
}

static void compiles(const rg_fused_form &f, int capability, const std::string &name)
{
  static char text[RG_FUSED_TEXT_MOST];
  const std::string what = name + " for sm_" + std::to_string(capability);
  char why[512] = "";
  char *code = nullptr;
  size_t bytes = 0;
  if (!ok(rg_fused_text(&f, text, sizeof(text)) > 0, name + " has a text")) return;
  const bool good = rg_compile(text, capability, &code, &bytes, why, sizeof(why));
  if (!ok(good && bytes > 0, what + (good ? "" : ": ") + why)) return;
  look(code, bytes, what, has(f, RG_OP_SIN) || has(f, RG_OP_COS) || has(f, RG_OP_TAN));
  free(code);
}

int main()
{
  if (rg_compiler_version(true) == 0) {
    printf("ok 1 - # SKIP NVRTC: %s\n1..1\n", rg_compiler_note());
    return 0;
  }
  printf("# NVRTC %s\n", rg_compiler_note());

  // every function, alone: of two bf16 rows, with what each has of its own
  for (size_t i = 0; i < sizeof(ONE) / sizeof(ONE[0]); i++) {
    rg_fused_form f = blank();
    f.n = 1;
    f.link[0] = link_of(ONE[i], RG_FUSED_NONE);
    f.link[0].load = f.link[0].store = 0;
    f.in_type[0] = f.out_type[0] = (uint8_t)(i % 3);
    compiles(f, 90, "function " + std::to_string(ONE[i]));
  }
  // a layer's bias and gelu in bf16, the case that counts
  rg_fused_form f = blank();
  f.n = 2;
  f.link[0] = link_of(RG_OP_ADD, 1);
  f.link[0].load = 0;
  f.link[0].dtype = f.link[1].dtype = RG_BF16;
  f.link[1] = link_of(RG_OP_GELU, RG_FUSED_NONE);
  f.link[1].store = 0;
  f.in_type[0] = f.in_type[1] = f.out_type[0] = RG_PART_BF16;
  f.in_lies[1] = RG_LIES_AGAIN;
  for (int capability : { 80, 89, 90, 100 }) {
    for (f.packs = 1; f.packs <= 2; f.packs++) {
      compiles(f, capability, "bias and gelu by " + std::to_string(f.packs));
    }
  }
  for (int i = 0; i < 24; i++) compiles(any_chain(), i % 2 ? 80 : 90, "chain " + std::to_string(i));

  // a link without a text, and a buffer that is too small, are told and not written
  static char text[RG_FUSED_TEXT_MOST];
  f.link[1].id = RG_OP_EQ;
  ok(rg_fused_text(&f, text, sizeof(text)) == 0, "a comparison has no text");
  f.link[1].id = RG_OP_GELU;
  const size_t n = rg_fused_text(&f, text, sizeof(text));
  ok(n > 0 && rg_fused_text(&f, text, n) == 0 && rg_fused_text(&f, text, n + 1) == n,
     "a text of " + std::to_string(n) + " bytes needs one more");
  char why[512] = "";
  char *code = nullptr;
  size_t bytes = 0;
  bool good = rg_compile("extern \"C\" __global__ void f(int *p) { volatile int a[64]; a[p[0]] = 1;"
                         " p[1] = a[p[2]]; }", 90, &code, &bytes, why, sizeof(why));
  ok(good && noted(code, bytes, FRAME_SIZE) >= 256, "stack is seen where there is some");
  free(code);
  good = rg_compile("this is no text", 90, &code, &bytes, why, sizeof(why));
  ok(!good && code == nullptr && strstr(why, "error") != nullptr,
     std::string("what cannot be compiled: ") + why);
  good = rg_compile(text, 12, &code, &bytes, why, sizeof(why));
  ok(!good && code == nullptr && strstr(why, "gpu-architecture") != nullptr,
     std::string("a GPU that the compiler does not know: ") + why);
  printf("# at most %ld registers\n1..%d\n", most_registers, tests);
  return failures > 0;
}
