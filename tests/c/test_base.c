/* SPDX-License-Identifier: MIT */
/*
** Status, random numbers, threads, processors, instruction sets, clock.
*/
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "tap.h"

/* -- Status ---------------------------------------------------------------------- */

static void *fail_elsewhere(void *unused)
{
  (void)unused;
  (void)rg_fail(RG_EIO, "of another thread");
  return NULL;
}

static void test_status(void)
{
  static const struct {
    rg_status code;
    const char *name;
  } all[] = {
#define STATUS_ROW(code, number, text) { number, #code },
    RG_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
  };
  char longer[2000];
  pthread_t thread;

  is_int(sizeof(all) / sizeof(all[0]), RG_STATUS_COUNT, "every status has a row");
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    ok(strcmp(rg_status_name(all[i].code), all[i].name) == 0, all[i].name);
    ok(strlen(rg_status_text(all[i].code)) > 4, "has a sentence");
  }
  ok(strcmp(rg_status_name(1), "RG_?") == 0, "a positive number is no status");
  ok(strcmp(rg_status_name(-RG_STATUS_COUNT), "RG_?") == 0, "nor is one past the last");
  ok(strcmp(rg_status_name(INT32_MIN), "RG_?") == 0, "nor the smallest");
  ok(strcmp(rg_status_text(7), "not a status") == 0, "and has no sentence");

  is_int(rg_fail(RG_ESHAPE, "sizes %d and %d", 3, 4), RG_ESHAPE, "rg_fail returns its code");
  ok(strcmp(rg_error_message(), "sizes 3 and 4") == 0, "and keeps the sentence");
  pthread_create(&thread, NULL, fail_elsewhere, NULL);
  pthread_join(thread, NULL);
  ok(strcmp(rg_error_message(), "sizes 3 and 4") == 0, "for this thread alone");
  memset(longer, 'x', sizeof(longer) - 1);
  longer[sizeof(longer) - 1] = 0;
  (void)rg_fail(RG_EARG, "p is %s and -nance, -nan; -nan.txt", "-nan");
  ok(strcmp(rg_error_message(), "p is nan and -nance, nan; -nan.txt") == 0,
     "nan has no sign, and names are left alone");
  is_int(rg_fail(RG_EARG, "%s", longer), RG_EARG, "a sentence that is too long");
  ok(strlen(rg_error_message()) > 200 && strlen(rg_error_message()) < 2000, "is cut");
  is_int(rg_abi(), RG_ABI, "library and header agree");
}

/* -- Philox ---------------------------------------------------------------------- */

/* Philox4x32-10 as the paper writes it, with the whole counter; checked by the known answers. */
static void reference(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
  uint32_t c[4] = { counter[0], counter[1], counter[2], counter[3] };
  uint32_t k[2] = { key[0], key[1] };

  for (int round = 0; round < 10; round++) {
    uint64_t a = 0xD2511F53ull * c[0];
    uint64_t b = 0xCD9E8D57ull * c[2];
    uint32_t next[4] = { (uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                         (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a };

    memcpy(c, next, sizeof(c));
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  memcpy(out, c, sizeof(c));
}

/* Known answers of Random123 1.14 (kat_vectors, philox4x32 10). */
static const struct {
  uint32_t counter[4];
  uint32_t key[2];
  uint32_t want[4];
} known[] = {
  { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
  { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
    { 0xffffffff, 0xffffffff },
    { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
  { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
    { 0xa4093822, 0x299f31d0 },
    { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

static void test_philox(void)
{
  uint32_t got[4];
  uint64_t x = 1;
  bool same = true;

  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    reference(known[i].counter, known[i].key, got);
    ok(memcmp(got, known[i].want, sizeof(got)) == 0, "the test's own philox gives a known answer");
  }
  rg_philox(0, 0, got);
  ok(memcmp(got, known[0].want, sizeof(got)) == 0, "seed 0, block 0 is the published vector");
  /* the seed's low word is key 0, the block's low word is counter 0, counters 2 and 3 are 0 */
  for (int i = 0; i < 1000; i++) {
    uint64_t seed = x *= 6364136223846793005u;
    uint64_t index = x *= 6364136223846793005u;
    uint32_t counter[4] = { (uint32_t)index, (uint32_t)(index >> 32), 0, 0 };
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t want[4];

    reference(counter, key, want);
    rg_philox(seed, index, got);
    same = same && memcmp(got, want, sizeof(got)) == 0;
  }
  ok(same, "so are 1000 others, with both halves of seed and block");
}

/* -- Streams --------------------------------------------------------------------- */

enum { TAKES = 20000 };

static void *take_many(void *generator)
{
  for (int i = 0; i < TAKES; i++) {
    rg_generator_take(generator, 3);
  }
  return NULL;
}

static void test_streams(void)
{
  rg_generator *g = NULL;
  pthread_t threads[2];

  is_status(rg_generator_new(42, &g), RG_OK, "a stream");
  is_status(rg_generator_new(42, NULL), RG_EARG, "needs a place to go");
  is_int(rg_generator_seed(g), 42, "has its seed");
  is_int(rg_generator_offset(g), 0, "and begins at 0");
  is_int(rg_generator_take(g, 5), 0, "the first take starts there");
  is_int(rg_generator_take(g, 0), 5, "the next behind it");
  is_int(rg_generator_take(g, 3), 5, "more");
  ok(!rg_generator_give_back(g, 0, 5), "others have taken more since");
  is_int(rg_generator_take(g, 0), 8, "and nothing came back");
  ok(rg_generator_give_back(g, 5, 3), "the last ones come back");
  is_int(rg_generator_take(g, 7), 5, "taking nothing moves nothing");
  is_int(rg_generator_offset(g), 12, "twelve are taken");
  rg_generator_set(g, UINT64_MAX, 3);
  ok(rg_generator_seed(g) == UINT64_MAX && rg_generator_offset(g) == 3, "seed and offset are set");
  ok(rg_generator_retain(g) == g, "a reference more");
  rg_generator_release(g);
  is_int(rg_generator_offset(g), 3, "keeps it");
  for (int i = 0; i < 2; i++) {
    pthread_create(&threads[i], NULL, take_many, g);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
  }
  is_int(rg_generator_offset(g), 3 + 2 * 3 * TAKES, "two threads lose no number");
  rg_generator_release(g);
  rg_generator_release(NULL);
  ok(rg_generator_retain(NULL) == NULL, "no stream may be held");
  ok(rg_generator_seed(NULL) == 0 && rg_generator_offset(NULL) == 0, "or asked");
  rg_generator_set(NULL, 1, 1);

  g = rg_generator_default();
  ok(g != NULL && g == rg_generator_default(), "there is one default stream");
  ok(rg_generator_seed(g) < (uint64_t)1 << 53, "whose seed a double holds");
  rg_generator_take(g, 9);
  rg_seed(11);
  ok(rg_generator_seed(g) == 11 && rg_generator_offset(g) == 0, "rg_seed starts it again");
  rg_generator_release(rg_generator_retain(g));
}

/* -- Machine --------------------------------------------------------------------- */

/* What this program answers when it is started again with one argument. */
static int answer(const char *path, const char *question)
{
  int status = -1;
  pid_t child = fork();

  if (child == 0) {
    execl(path, path, question, (char *)NULL);
    _exit(99);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The instruction set a new process uses under RIDGE_ISA. */
static int isa_under(const char *path, const char *wish)
{
  int got;

  setenv("RIDGE_ISA", wish, 1);
  got = answer(path, "isa");
  unsetenv("RIDGE_ISA");
  return got;
}

/* What a file with these lines tells of a machine. */
static rg_machine told(const char *lines)
{
  rg_machine m = { .cpu = "" };
  char path[] = "/tmp/ridge_test_cpuinfo_XXXXXX";
  int fd = mkstemp(path);

  ok(fd >= 0 && write(fd, lines, strlen(lines)) == (ssize_t)strlen(lines), "a file is written");
  (void)close(fd);
  rg_machine_read(path, &m);
  (void)unlink(path);
  return m;
}

static void test_cpuinfo(void)
{
  rg_machine m = told("processor\t: 0\nmodel name\t: First 9000\nphysical id\t: 0\n"
                      "cpu cores\t: 12\n\nprocessor\t: 1\nmodel name\t: Second\n"
                      "physical id\t: 1\ncpu cores\t: 12\n");

  ok(strcmp(m.cpu, "First 9000") == 0, "the name of the first processor");
  is_int(m.n_sockets, 2, "sockets are counted from 0");
  is_int(m.n_cores, 24, "cores are those of one socket");
  m = told("physical id\t: 3\nphysical id\t: 2\n");
  is_int(m.n_sockets, 4, "the last socket need not come last");
  is_int(m.n_cores, 4, "of one core each where nothing is said of them");
  m = told("processor\t: 0\nBogoMIPS\t: 50.00\nCPU part\t: 0xd0c\n"); /* of an ARM */
  is_int(m.n_sockets, 1, "one socket where none is named");
  is_int(m.n_cores, 1, "and one core");
  ok(m.cpu[0] == 0, "which has no name");
  rg_machine_read("/nowhere/cpuinfo", &m);
  ok(m.n_sockets == 1 && m.n_cores == 1, "nor is there more without a file");
}

static void test_machine(const char *path)
{
  const rg_machine *m = rg_machine_facts();
  int32_t top = m->isa_level;
  char text[64];

  ok(m == rg_machine_facts(), "the facts are read once");
  ok(m->cpu[0] != 0, "the processor has a name");
  ok(m->n_threads >= 1 && m->n_cores >= 1 && m->n_sockets >= 1, "and processors");
  ok(m->ram_bytes > (int64_t)1 << 28, "there is memory");
  ok(top >= RG_ISA_BASE && top < RG_ISA_COUNT, "the level is one of ours");
  ok(m->l1d_bytes <= m->l2_bytes || m->l2_bytes == 0, "caches grow outwards");

  ok(rg_isa() >= RG_ISA_BASE && rg_isa() <= top, "the level in use is one it has");
  for (int32_t level = 0; level <= top; level++) {
    is_status(rg_set_isa(level), RG_OK, "a level it has");
    is_int(rg_isa(), level, "is taken");
  }
  is_status(rg_set_isa(-1), RG_EARG, "a level below all");
  is_status(rg_set_isa(RG_ISA_COUNT), RG_EARG, "a level above all");
  (void)snprintf(text, sizeof(text), "isa: %d is not in 0 .. %d", RG_ISA_COUNT, RG_ISA_COUNT - 1);
  ok(strcmp(rg_error_message(), text) == 0, text);
  for (int32_t level = top + 1; level < RG_ISA_COUNT; level++) {
    is_status(rg_set_isa(level), RG_ENOSUP, "a level this machine lacks");
  }
  is_int(rg_isa(), top, "leave it as it was");
  is_int(isa_under(path, "base"), RG_ISA_BASE, "RIDGE_ISA=base");
  for (int32_t level = 0; level < RG_ISA_COUNT; level++) {
    static const char *const words[] = { "base", "avx2", "avx512", "avx512_bf16", "amx" };

    is_int(isa_under(path, words[level]), level < top ? level : top,
           "RIDGE_ISA never goes above the machine");
  }
#ifdef __x86_64__
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

  is_int(top,
         m->has_amx_bf16      ? RG_ISA_AMX
         : m->has_avx512_bf16 ? RG_ISA_AVX512_BF16
         : avx2 && avx512     ? RG_ISA_AVX512
         : avx2               ? RG_ISA_AVX2
                              : RG_ISA_BASE,
         "the level is the highest that the processor has");
#else
  is_int(top, RG_ISA_BASE, "of other processors there is one level");
#endif
  ok(top < RG_ISA_AVX512_BF16 || m->has_avx512_bf16, "the level of bf16 has its instructions");
  ok(top < RG_ISA_AMX || m->has_amx_bf16, "and so has AMX");
}

/* -- Texts ----------------------------------------------------------------------- */

/* In a process of its own: kept texts stay.  4 MiB of them, or 16384, and no more. */
static int keep_texts(int32_t last)
{
  size_t most = (size_t)1 << 22;
  char *large = malloc(most + 1);
  char text[16];
  const char *first;
  int32_t n = 1;

  memset(large, 'x', most);
  large[most] = '\0';
  if (rg_text_keep(large) != NULL) return 1; /* a byte more than there is room for */
  first = rg_text_keep("first");
  large[most - sizeof("first")] = '\0';
  if (last == 0) {
    /* the room that is left, and one byte more */
    if (rg_text_keep(large) != NULL || rg_text_keep(large + 1) == NULL) return 2;
    return rg_text_keep("") != NULL ? 3 : rg_text_keep("first") != first ? 4 : 0;
  }
  for (int32_t i = 0; i < 20000; i++) {
    (void)snprintf(text, sizeof(text), "%d", i);
    const char *kept = rg_text_keep(text);
    if (kept != NULL && (kept == text || strcmp(kept, text) != 0)) return 5;
    n += kept != NULL;
  }
  if (n != last || first == NULL || rg_text_keep("first") != first) return 6;
  free(large);
  return 0;
}

/* -- Threads --------------------------------------------------------------------- */

static void test_threads(void)
{
  int32_t before = rg_threads();

  ok(before >= 1, "there is a thread");
  ok(rg_processors() >= 1, "and a processor");
  is_status(rg_set_threads(3), RG_OK, "three threads");
  is_int(rg_threads(), 3, "are three");
  is_int(rg_threads_for(10), 1, "little work takes one");
  is_int(rg_threads_for(1e9), 3, "much work all");
  is_status(rg_set_threads(-1), RG_EARG, "fewer than none");
  is_status(rg_set_threads(1025), RG_EARG, "too many");
  is_int(rg_threads(), 3, "change nothing");
  is_status(rg_set_threads(0), RG_OK, "as many as there are");
  is_int(rg_threads(), rg_processors(), "one for each processor");
  is_status(rg_set_threads(before), RG_OK, "back");
}

/* Where a thread may run after it was bound and unbound. */
static int unbound(void)
{
  int32_t cpu = sched_getcpu();
  cpu_set_t now;

  if (rg_set_affinity(&cpu, 1) != RG_OK || rg_set_affinity(NULL, 0) != RG_OK) {
    return 98;
  }
  sched_getaffinity(0, sizeof(now), &now);
  return CPU_COUNT(&now);
}

static void test_affinity(const char *path)
{
  cpu_set_t before;
  cpu_set_t now;
  int32_t one = 0;
  int32_t n = rg_processors();

  sched_getaffinity(0, sizeof(before), &before);
  while (!CPU_ISSET((size_t)one, &before)) {
    one++;
  }
  is_status(rg_set_affinity(&one, 1), RG_OK, "bound to one processor");
  sched_getaffinity(0, sizeof(now), &now);
  ok(CPU_COUNT(&now) == 1 && CPU_ISSET((size_t)one, &now), "is where this thread may run");
  is_int(rg_processors(), n, "the process still has all of them");
  is_status(rg_set_affinity((int32_t[]){ CPU_SETSIZE - 1 }, 1), RG_ESYS,
            "a processor that is not there");
  ok(strstr(rg_error_message(), "1023") != NULL && strstr(rg_error_message(), strerror(22)) != NULL,
     "is named, with the system's reason");
  is_status(rg_set_affinity((int32_t[]){ -1 }, 1), RG_EARG, "a negative one");
  is_status(rg_set_affinity((int32_t[]){ CPU_SETSIZE }, 1), RG_EARG, "one past the last");
  is_status(rg_set_affinity(NULL, 1), RG_EARG, "none given");
  is_status(rg_set_affinity(&one, -1), RG_EARG, "fewer than none");
  is_status(rg_set_affinity(NULL, 0), RG_OK, "unbound");
  sched_getaffinity(0, sizeof(now), &now);
  ok(CPU_EQUAL(&now, &before), "runs where it did before");
  CPU_ZERO(&now);
  CPU_SET((size_t)one, &now);
  sched_setaffinity(0, sizeof(now), &now);
  is_int(answer(path, "unbound"), 1, "a process that was given one processor stays on it");
  sched_setaffinity(0, sizeof(before), &before);
}

/* -- Clock and interrupt --------------------------------------------------------- */

static void test_clock(void)
{
  int64_t last = rg_clock_ns();
  int64_t begin = last;
  bool forward = true;

  for (int i = 0; i < 100000; i++) {
    int64_t now = rg_clock_ns();

    forward = forward && now >= last;
    last = now;
  }
  ok(forward, "the clock never goes back");
  ok(last > begin, "and goes on");
}

static void test_interrupt(void)
{
  is_int(rg_interrupt_pending(), 0, "no request to stop");
  rg_interrupt_set();
  rg_interrupt_set();
  is_int(rg_interrupt_pending(), 1, "one stands, however often it was made");
  is_int(rg_interrupt_count(), 2, "which is counted");
  rg_interrupt_clear();
  is_int(rg_interrupt_pending(), 0, "until it is taken back");
}

/* Where a process begins is the system's: all 53 bits come up, of which a clock reaches 51. */
static void test_first_seed(const char *path)
{
  int bits = 0;

  for (int i = 0; i < 24; i++) {
    bits |= answer(path, "seed");
  }
  ok(bits >= 192 && bits < 256, "the highest bits of first seeds");
}

/* -- Counts ------------------------------------------------------------------------------------ */

enum { COUNTS = 1000000 };

static rg_tally tally;

static void *count_both_ways(void *unused)
{
  for (int32_t i = 0; i < COUNTS; i++) {
    rg_tally_add(&tally, (i & 1) == 0 ? 3 : -2);
  }
  return unused;
}

/* Threads that run no Lua count at the same time, and nothing is lost. */
static void test_tally(void)
{
  pthread_t thread[2];

  for (int i = 0; i < 2; i++) {
    pthread_create(&thread[i], NULL, count_both_ways, NULL);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(thread[i], NULL);
  }
  is_int(rg_tally_read(&tally), COUNTS, "what two threads count together is the sum");
  is_int(atomic_load(&tally.own), 0, "in the place that all may write to at one time");
  rg_tally_add(&tally, -COUNTS);
  is_int(rg_tally_read(&tally), 0, "and what a third one takes away");
  is_int(atomic_load(&tally.own), -COUNTS, "for itself, since it loaded the library and runs Lua");
}

int main(int argc, char **argv)
{
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

  if (argc > 1 && strcmp(argv[1], "isa") == 0) {
    return rg_isa();
  }
  if (argc > 1 && strcmp(argv[1], "unbound") == 0) {
    return unbound();
  }
  if (argc > 1 && strcmp(argv[1], "seed") == 0) {
    return (int)(rg_generator_seed(rg_generator_default()) >> 45);
  }
  if (argc > 1 && strncmp(argv[1], "texts", 5) == 0) {
    return keep_texts(argv[1][5] == 'b' ? 0 : 1 << 14);
  }
  path[n > 0 ? n : 0] = 0;
  test_status();
  test_philox();
  test_streams();
  test_cpuinfo();
  test_machine(path);
  is_int(answer(path, "texts"), 0, "16384 texts are kept, once each");
  is_int(answer(path, "textsb"), 0, "or 4 MiB of them");
  test_threads();
  test_affinity(path);
  test_first_seed(path);
  test_clock();
  test_interrupt();
  test_tally();
  return done();
}
