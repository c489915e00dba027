/* SPDX-License-Identifier: MIT */
/*
** What the machine is: processor, caches, memory, and which instruction sets this process may use.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

static rg_machine facts;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int32_t isa = -1;

static const char *const isa_names[RG_ISA_COUNT] = { "base", "avx2", "avx512", "avx512_bf16",
                                                     "amx" };

/* -- /proc and /sys ---------------------------------------------------------- */

/* "32K", "2048K", "480M" to bytes, numbers as they are; 0 where the file is missing. */
static int64_t cache_fact(const char *index, const char *what)
{
  char path[96];
  char unit = 0;
  long long n = 0;
  FILE *file;

  snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/%s/%s", index, what);
  file = fopen(path, "re");
  if (file == NULL) {
    return 0;
  }
  if (fscanf(file, "%lld%c", &n, &unit) < 1) {
    n = 0;
  }
  fclose(file);
  return n * (unit == 'K' ? 1024 : unit == 'M' ? 1048576 : 1);
}

/* The text behind "key : " of a line of /proc/cpuinfo. */
static const char *value_of(const char *line, const char *key)
{
  const char *colon = strchr(line, ':');

  return strncmp(line, key, strlen(key)) == 0 && colon != NULL ? colon + 2 : NULL;
}

void rg_machine_read(const char *path, rg_machine *out)
{
  FILE *file = fopen(path, "re");
  char line[4096];
  long last_socket = -1;
  long cores = 1;

  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    const char *value;

    if (out->cpu[0] == 0 && (value = value_of(line, "model name")) != NULL) {
      snprintf(out->cpu, sizeof(out->cpu), "%.*s", (int)strcspn(value, "\n"), value);
    } else if ((value = value_of(line, "physical id")) != NULL) {
      long socket = strtol(value, NULL, 10);

      last_socket = socket > last_socket ? socket : last_socket;
    } else if ((value = value_of(line, "cpu cores")) != NULL) {
      cores = strtol(value, NULL, 10);
    }
  }
  if (file != NULL) {
    fclose(file);
  }
  out->n_sockets = last_socket < 0 ? 1 : (int32_t)last_socket + 1;
  out->n_cores = (int32_t)cores * out->n_sockets;
}

/* -- Instruction sets ----------------------------------------------------------- */

/* AMX state is large, so Linux gives it only to processes that ask. */
static bool amx_allowed(void)
{
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };

  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
#else
  return false;
#endif
}

static void add_flag(const char *name, bool there)
{
  size_t used = strlen(facts.isa);

  if (there) {
    snprintf(facts.isa + used, sizeof(facts.isa) - used, "%s%s", used > 0 ? " " : "", name);
  }
}

static void read_isa(void)
{
#ifdef __x86_64__
  unsigned a;
  unsigned b;
  unsigned c;
  unsigned d;
  bool avx2;
  bool avx512;

  __builtin_cpu_init();
  avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
  facts.has_amx_bf16 = (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0 && amx_allowed();
  add_flag("amx_bf16", facts.has_amx_bf16);
  add_flag("amx_int8", facts.has_amx_bf16 && (d >> 25 & 1) != 0);
  __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(1));
  facts.has_avx512_bf16 = avx512 && (a >> 5 & 1) != 0;
  add_flag("avx512_bf16", facts.has_avx512_bf16);
  add_flag("avx512", avx512);
  add_flag("avx2", avx2);
  facts.isa_level = facts.has_avx512_bf16 ? facts.has_amx_bf16 ? RG_ISA_AMX : RG_ISA_AVX512_BF16
                    : avx512              ? RG_ISA_AVX512
                    : avx2                ? RG_ISA_AVX2
                                          : RG_ISA_BASE;
#endif
}

static void read_machine(void)
{
  rg_machine_read("/proc/cpuinfo", &facts);
  read_isa();
  facts.n_threads = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
  facts.l1d_bytes = cache_fact("index0", "size");
  facts.l1d_ways = (int32_t)cache_fact("index0", "ways_of_associativity");
  facts.l2_bytes = cache_fact("index2", "size");
  facts.l3_bytes = cache_fact("index3", "size");
  facts.ram_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

const rg_machine *rg_machine_facts(void)
{
  pthread_once(&once, read_machine);
  return &facts;
}

/* -- The choice ------------------------------------------------------------------ */

int32_t rg_isa(void)
{
  int32_t level = atomic_load_explicit(&isa, memory_order_relaxed);

  if (level < 0) {
    const char *wish = getenv("RIDGE_ISA");

    level = rg_machine_facts()->isa_level;
    for (int32_t i = 0; wish != NULL && i < level; i++) {
      if (strcmp(wish, isa_names[i]) == 0) {
        level = i;
      }
    }
    atomic_store(&isa, level);
  }
  return level;
}

const char *rg_isa_name(int32_t level)
{
  return level >= 0 && level < RG_ISA_COUNT ? isa_names[level] : NULL;
}

rg_status rg_set_isa(int32_t level)
{
  if (level < 0 || level >= RG_ISA_COUNT) {
    return rg_fail(RG_EARG, "isa: %d is not in 0 .. %d", level, RG_ISA_COUNT - 1);
  }
  if (level > rg_machine_facts()->isa_level) {
    return rg_fail(RG_ENOSUP, "isa: this machine has no %s", isa_names[level]);
  }
  atomic_store(&isa, level);
  return RG_OK;
}
