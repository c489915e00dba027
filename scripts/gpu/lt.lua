-- SPDX-License-Identifier: MIT
--- Products asked of cublasLt itself, one algorithm at a time: what beliefs.lua cannot see through
--- ridge, which runs only the algorithm it chose. The functions are those that the plugin is linked
--- to, found by name through it, so the simulator's stand-in is asked in the same way.

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'

ffi.cdef [[
typedef struct ridge_lt_result {
  uint64_t algo[8];
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
} ridge_lt_result;
int cublasLtCreate(void **handle);
size_t cublasLtGetVersion(void);
int cublasLtMatmulDescInit_internal(void *desc, size_t size, int compute, int scale);
int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *from, size_t bytes);
int cublasLtMatrixLayoutInit_internal(void *layout, size_t size, int type, uint64_t rows,
                                      uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *from, size_t bytes);
int cublasLtMatmulPreferenceInit_internal(void *preference, size_t size);
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *from,
                                         size_t bytes);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                   void *preference, int most, ridge_lt_result *result, int *n);
int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c, void *d,
                            const void *algo, ridge_lt_result *result);
int cublasLtMatmulAlgoConfigGetAttribute(const void *algo, int attribute, void *to, size_t bytes,
                                         size_t *written);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *la,
                   const void *b, void *lb, const void *beta, const void *c, void *lc, void *d,
                   void *ld, const void *algo, void *workspace, size_t bytes, void *stream);
]]

local M = {}

-- Numbers of cublasLt.h, cublas_api.h and library_types.h.
M.DEFAULT, M.RELU, M.BIAS, M.RELU_BIAS = 1, 2, 4, 6
M.AS_F32, M.AS_TF32, M.AS_F64 = 68, 77, 70
M.INPLACE, M.IN_SUMS, M.IN_RESULT = 1, 2, 4 -- where the parts of split sums are added up
local TYPE = { f32 = 0, f64 = 1, f16 = 2, bf16 = 14, f8e4m3 = 28, f8e5m2 = 29 }
local SIZE = { f32 = 4, f64 = 8, f16 = 2, bf16 = 2, f8e4m3 = 1, f8e5m2 = 1 }
local TRANSA, TRANSB, EPILOGUE, BIAS_AT, BIAS_TYPE = 3, 4, 7, 8, 26   -- of a description
local SCALE_AT, SCALE_MODE, BY_ROW = { 17, 18 }, { 31, 32 }, 3
local BATCH, STEP = 5, 6                                              -- of a layout
local ROOM, SCHEMES, ALIGNED = 1, 3, { 5, 6, 7, 8 }                   -- of a preference
local ID, SCHEME = 0, 3                                               -- of an algorithm

M.MB = 2 ^ 20
M.WORKSPACE = 32 * M.MB

local library, handle

-- The file that was mapped as the plugin.
local function plugin()
  local name = (os.getenv 'RIDGE_GPU' or 'libridge_gpu.so'):match '[^/]+$'
  for line in io.lines '/proc/self/maps' do
    local path = line:match ' (/.*)$'
    if path and path:sub(-#name - 1) == '/' .. name then return path end
  end
  error('the plugin is not open: ' .. name, 0)
end

local function sure(status, what)
  if status ~= 0 then error(('%s: status %d of cublasLt'):format(what, status), 0) end
end

--- The library that the plugin uses; a device must have been opened before.
function M.library()
  if not library then
    library = ffi.load(plugin())
    local out = ffi.new 'void *[1]'
    sure(library.cublasLtCreate(out), 'cublasLtCreate')
    handle = out[0]
  end
  return library, handle
end

--- Its version, such as 130100.
function M.version() return tonumber(M.library().cublasLtGetVersion()) end

--- The plugin's file.
M.plugin = plugin

--- Wait for everything on all streams of all devices.
function M.wait()
  if C.rg_device_wait(C.RG_EVERY_DEVICE) ~= 0 then error(ffi.string(C.rg_error_message()), 0) end
end

--- Where a tensor's first element is on its device.
function M.address(x) return ffi.cast('char *', x._t._data) end

local rooms = {}

--- A workspace of so many bytes, kept.
function M.room(bytes)
  rooms[bytes] = rooms[bytes] or ridge.empty(bytes / 4, { device = 'auto' })
  return M.address(rooms[bytes])
end

local Product = {}
Product.__index = Product

local function set(f, object, attribute, kind, value)
  local box = ffi.new(kind .. '[1]', value)
  return f(object, attribute, box, ffi.sizeof(box))
end

local function layout(lt, dtype, side, rows, cols, count)
  local l = ffi.new 'uint64_t[8]'
  sure(lt.cublasLtMatrixLayoutInit_internal(l, 64, TYPE[dtype], rows, cols, side.ld), 'layout')
  if count > 1 then
    sure(set(lt.cublasLtMatrixLayoutSetAttribute, l, BATCH, 'int32_t', count), 'batch')
    sure(set(lt.cublasLtMatrixLayoutSetAttribute, l, STEP, 'int64_t', side.step), 'step')
  end
  return l
end

-- A factor or a result: row-major, or (transposed) column-major. The tensor is kept alive.
local function side_of(given, rows, cols)
  local s = getmetatable(given) and { tensor = given } or given
  return { tensor = s.tensor, data = M.address(s.tensor) + (s.offset or 0),
    transposed = s.transposed, ld = s.ld or (s.transposed and rows or cols),
    step = s.step or rows * cols }
end

--- c = end(scale a b + bias), count times, by rows as ridge has them (gpu/blas/blas.cuh).
--
-- p: m, n, k, count (1), factor and result (types), a, b, c (tensors, or { tensor, offset in bytes,
-- ld, step, transposed }), bias (likewise, or nil), ending (M.DEFAULT), compute (by the factor's
-- type), scale (1); of 8-bit floats row_scales ({ m numbers, n numbers }, tensors of f32).
function M.product(p)
  local lt = M.library()
  local self = setmetatable({ p = p }, Product)
  local wide = p.factor == 'f64'
  local count = p.count or 1
  local compute = p.compute or (wide and M.AS_F64 or M.AS_F32)
  local a, b, c = side_of(p.a, p.m, p.k), side_of(p.b, p.k, p.n), side_of(p.c, p.m, p.n)
  self.a, self.b, self.c = a, b, c
  self.desc = ffi.new 'uint64_t[32]'
  sure(lt.cublasLtMatmulDescInit_internal(self.desc, 256, compute, wide and TYPE.f64 or TYPE.f32),
    'description')
  local function say(attribute, kind, value)
    sure(set(lt.cublasLtMatmulDescSetAttribute, self.desc, attribute, kind, value), 'attribute')
  end
  -- its matrices are columns that lie one after the other: c' = b' a'
  say(TRANSA, 'int32_t', b.transposed and 1 or 0)
  say(TRANSB, 'int32_t', a.transposed and 1 or 0)
  say(EPILOGUE, 'int32_t', p.ending or M.DEFAULT)
  if p.bias then
    self.bias = side_of(p.bias, 1, p.n)
    say(BIAS_AT, 'char *', self.bias.data)
    say(BIAS_TYPE, 'int32_t', TYPE[p.result])
  end
  for i, scale in ipairs(p.row_scales and { p.row_scales[2], p.row_scales[1] } or {}) do
    say(SCALE_AT[i], 'char *', M.address(scale))
    say(SCALE_MODE[i], 'int32_t', BY_ROW)
  end
  local real = wide and 'double[1]' or 'float[1]'
  self.alpha, self.beta = ffi.new(real, p.scale or 1), ffi.new(real, 0)
  local function lay(dtype, s, rows, cols)
    if s.transposed then rows, cols = cols, rows end
    return layout(lt, dtype, s, cols, rows, count)
  end
  self.la, self.lb = lay(p.factor, b, p.k, p.n), lay(p.factor, a, p.m, p.k)
  self.lc = lay(p.result, c, p.m, p.n)
  return self
end

-- What an address is a multiple of, 256 at most.
local function multiple(data)
  local at, of = tonumber(ffi.cast('uintptr_t', data)), 256
  while at % of ~= 0 do of = of / 2 end
  return of
end

--- The algorithms that the heuristic names, the first best: { algo, workspace, id, scheme }; where
--- it has none, an empty list and its status.
--
-- o: most (8), schemes (M.IN_SUMS), room (bytes of workspace; 32 MiB), aligned (what addresses are
-- said to be multiples of; at most what they are).
function Product:ask(o)
  o = o or {}
  local lt = library
  local preference, n = ffi.new 'uint64_t[8]', ffi.new 'int[1]'
  local most = o.most or 8
  local result = ffi.new('ridge_lt_result[?]', most)
  sure(lt.cublasLtMatmulPreferenceInit_internal(preference, 64), 'preference')
  local function say(attribute, kind, value)
    sure(set(lt.cublasLtMatmulPreferenceSetAttribute, preference, attribute, kind, value), 'wish')
  end
  self.room = o.room or M.WORKSPACE
  say(ROOM, 'uint64_t', self.room)
  say(SCHEMES, 'uint32_t', o.schemes or M.IN_SUMS)
  for i, s in ipairs { self.b, self.a, self.c, self.c } do
    say(ALIGNED[i], 'uint32_t', math.min(multiple(s.data), o.aligned or 256))
  end
  local status = lt.cublasLtMatmulAlgoGetHeuristic(handle, self.desc, self.la, self.lb, self.lc,
    self.lc, preference, most, result, n)
  local list = {}
  for i = 0, (status == 0 and n[0] or 0) - 1 do
    if result[i].status == 0 then
      local algo = ffi.new 'uint64_t[8]'
      ffi.copy(algo, result[i].algo, 64)
      list[#list + 1] = { algo = algo, workspace = tonumber(result[i].workspace),
        id = M.config(algo, ID), scheme = M.config(algo, SCHEME) }
    end
  end
  return list, status
end

--- A number of an algorithm's configuration.
function M.config(algo, attribute)
  local to, written = ffi.new 'uint32_t[1]', ffi.new 'size_t[1]'
  sure(library.cublasLtMatmulAlgoConfigGetAttribute(algo, attribute, to, 4, written), 'algorithm')
  return to[0]
end

--- Does the library agree to run this by an algorithm?
function Product:agrees(algo)
  local result = ffi.new 'ridge_lt_result[1]'
  return library.cublasLtMatmulAlgoCheck(handle, self.desc, self.la, self.lb, self.lc, self.lc,
    algo, result) == 0 and tonumber(result[0].workspace) <= M.WORKSPACE
end

--- What cublasLtMatmul is given, in order. self.at: another workspace.
function Product:words(algo)
  local room = self.room or M.WORKSPACE
  return handle, self.desc, self.alpha, self.b.data, self.la, self.a.data, self.lb, self.beta,
    self.c.data, self.lc, self.c.data, self.lc, algo, self.at or M.room(room), room, nil
end

--- Begin it by an algorithm, beside all of ridge's streams; status. Wait before and after.
function Product:run(algo) return library.cublasLtMatmul(self:words(algo)) end

--- Microseconds of a run, the least of some windows of n, as the host sees them; nil: it does not
--- run. The first run is not counted.
function Product:time(algo, n)
  local best
  if self:run(algo) ~= 0 then return nil end
  for _ = 1, 4 do
    M.wait()
    local before = tonumber(C.rg_clock_ns())
    for _ = 1, n do self:run(algo) end
    M.wait()
    local us = (tonumber(C.rg_clock_ns()) - before) / 1e3 / n
    best = math.min(best or us, us)
  end
  return best
end

M.SIZE = SIZE
return M
