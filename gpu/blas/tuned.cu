/* SPDX-License-Identifier: MIT */
/*
** The table of chosen algorithms, and its file, cublaslt.txt (gpu/cache.cuh).
**
** A line of the file is a key, an algorithm and a checksum of both, in hexadecimal words.  A line
** that is not exactly that is left out; one that is, but whose algorithm the library refuses, is
** found again.  The file is replaced as a whole, by a rename; what other processes wrote meanwhile
** is read first and stays in it.
*/
#include "gpu/blas/tuned.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "gpu/cache.cuh"

enum {
  ALGO_WORDS = sizeof(cublasLtMatmulAlgo_t) / 8,
  WORDS = RG_TUNED_FIELDS + ALGO_WORDS + 1, /* of a line */
  MOST = 1 << 16,                           /* entries; nobody's program has so many products */
  SAVE_EVERY = 32,                          /* new ones; the others when the process ends */
  LINE = 17 * WORDS                         /* bytes; its end is one of them */
};

static const char NAME[] = "cublaslt.txt";
static const char HEAD[] = "ridge cublasLt algorithms 1\n";

struct entry {
  rg_tuned_key key;
  cublasLtMatmulAlgo_t algo;
  int32_t state;
};

/* By open addressing; the size is a power of two and at least twice the number of entries. */
static entry *table;
static uint64_t size;
static uint64_t used;
static int32_t unsaved;
static std::mutex lock;

/* -- The table --------------------------------------------------------------------------------- */

/* The entry of a key, or the free one where it would be; NULL only where there is no table. */
static entry *place_of(const rg_tuned_key *key)
{
  uint64_t at = rg_hash(key->field, sizeof(key->field), RG_HASH_BEGIN);

  if (size == 0) {
    return NULL;
  }
  while (table[at & (size - 1)].state != RG_TUNED_ABSENT &&
         memcmp(&table[at & (size - 1)].key, key, sizeof(*key)) != 0) {
    at++;
  }
  return &table[at & (size - 1)];
}

static bool grow(void)
{
  entry *old = table;
  uint64_t n = size;
  uint64_t more = size > 0 ? 2 * size : 256;
  entry *fresh = (entry *)calloc(more, sizeof(entry));

  if (fresh == NULL) {
    return false;
  }
  table = fresh;
  size = more;
  for (uint64_t i = 0; i < n; i++) {
    if (old[i].state != RG_TUNED_ABSENT) {
      *place_of(&old[i].key) = old[i];
    }
  }
  free(old);
  return true;
}

/* Without room it is forgotten, and found again at the next call. */
static void put(const rg_tuned_key *key, int32_t state, const cublasLtMatmulAlgo_t *algo)
{
  entry *e;

  if (2 * (used + 1) > size && (used >= MOST || !grow())) {
    return;
  }
  e = place_of(key);
  if (e->state == RG_TUNED_ABSENT) {
    used++;
  }
  e->key = *key;
  e->state = state;
  e->algo = algo != NULL ? *algo : cublasLtMatmulAlgo_t{};
}

/* -- The file ---------------------------------------------------------------------------------- */

/* A line without its end as its words; false where it is anything else. */
static bool parse(const char *line, size_t n, uint64_t *word)
{
  if (n != LINE - 1) {
    return false;
  }
  for (int i = 0; i < WORDS; i++) {
    uint64_t v = 0;

    for (int d = 0; d < 16; d++, line++) {
      int c = *line;
      int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

      if (digit < 0) {
        return false;
      }
      v = v << 4 | (uint64_t)digit;
    }
    word[i] = v;
    if (i + 1 < WORDS && *line++ != ' ') {
      return false;
    }
  }
  return rg_hash(word, 8 * (WORDS - 1), RG_HASH_BEGIN) == word[WORDS - 1];
}

/* Take from the file what is not known yet. */
static void load(void)
{
  uint64_t word[WORDS];
  rg_tuned_key key;
  cublasLtMatmulAlgo_t algo;
  entry *e;
  size_t bytes = 0;
  size_t n = 0;
  char *all = rg_cache_read(NAME, sizeof(HEAD) + 2 * (size_t)MOST * LINE, &bytes);
  const char *at = all;
  const char *line;

  if (all == NULL) {
    return;
  }
  line = rg_cache_line(&at, all + bytes, &n);
  if (line != NULL && n + 1 == sizeof(HEAD) - 1 && memcmp(line, HEAD, n) == 0) {
    while ((line = rg_cache_line(&at, all + bytes, &n)) != NULL) {
      if (parse(line, n, word)) {
        memcpy(&key, word, sizeof(key));
        memcpy(&algo, word + RG_TUNED_FIELDS, sizeof(algo));
        e = place_of(&key);
        if (e == NULL || e->state == RG_TUNED_ABSENT) {
          put(&key, RG_TUNED_LOADED, &algo);
        }
      }
    }
  }
  free(all);
}

/* All that is worth a line, as lines; returns their bytes. */
static size_t lines_of(char *text)
{
  uint64_t word[WORDS];
  size_t n = 0;

  for (uint64_t i = 0; i < size; i++) {
    if (table[i].state < RG_TUNED_BEST) {
      continue;
    }
    memcpy(word, &table[i].key, sizeof(table[i].key));
    memcpy(word + RG_TUNED_FIELDS, &table[i].algo, sizeof(table[i].algo));
    word[WORDS - 1] = rg_hash(word, 8 * (WORDS - 1), RG_HASH_BEGIN);
    for (int w = 0; w < WORDS; w++) {
      (void)snprintf(text + n, 18, "%016llx%c", (unsigned long long)word[w],
                     w + 1 < WORDS ? ' ' : '\n');
      n += 17;
    }
  }
  return n;
}

static void save(void)
{
  char *text;

  unsaved = 0;
  load(); /* what other processes wrote meanwhile */
  text = (char *)malloc(used * LINE + 1);
  if (text != NULL) {
    const rg_cache_piece piece[] = { { HEAD, sizeof(HEAD) - 1 }, { text, lines_of(text) } };

    (void)rg_cache_write(NAME, piece, 2);
  }
  free(text);
}

static void save_at_exit(void)
{
  std::lock_guard<std::mutex> held(lock);

  if (unsaved > 0) {
    save();
  }
}

/* -- What others call -------------------------------------------------------------------------- */

int32_t rg_tuned_find(const rg_tuned_key *key, cublasLtMatmulAlgo_t *algo)
{
  static bool loaded;
  std::lock_guard<std::mutex> held(lock);
  const entry *e;

  if (!loaded) {
    loaded = true;
    load();
  }
  e = place_of(key);
  if (e == NULL) {
    return RG_TUNED_ABSENT;
  }
  *algo = e->algo;
  return e->state;
}

void rg_tuned_keep(const rg_tuned_key *key, int32_t state, const cublasLtMatmulAlgo_t *algo)
{
  static bool registered;
  std::lock_guard<std::mutex> held(lock);

  put(key, state, algo);
  if (state != RG_TUNED_BEST) {
    return;
  }
  if (!registered) {
    registered = true;
    (void)atexit(save_at_exit);
  }
  if (++unsaved >= SAVE_EVERY) {
    save();
  }
}
