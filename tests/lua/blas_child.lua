-- SPDX-License-Identifier: MIT
-- Run by blas_spec with RIDGE_GPU naming the simulated GPU: products go to its cublasLt, in the
-- form that was meant, and give what the CPU gives.
--
--   ridge tests/lua/blas_child.lua WHAT [ARGUMENT]    WHAT: one of the functions of `run`
local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local ref = require 'ridge.ffi.ref'

dofile('tests/lua/simulated.lua').declare_blas()
local blas = ffi.load(os.getenv 'RIDGE_GPU')
local CALLS, HEURISTICS, CHECKS, FAILURES, MISUSES = 0, 2, 3, 4, 5
local BROKEN, INPLACE, SPLIT, WIDE = 0, 1, 2, 3
local DEFAULT, RELU, BIAS, RELU_BIAS = 1, 2, 4, 6             -- epilogues of cublasLt.h
local AS_F32, AS_F64, AS_TF32, AS_I32 = 68, 70, 77, 72        -- types of computation
local R_F32, R_F64, R_F16, R_BF16, R_I8, R_I32 = 0, 1, 2, 14, 3, 10   -- types of elements
local R_E4M3, R_E5M2 = 28, 29
local ACT = { none = 0, relu = 1, gelu = 2, silu = 3, tanh = 4, sigmoid = 5, relu6 = 6 }

local modes = C.rg_device_modes_now()

local function counted(what) return tonumber(blas.rgsim_blas_counted(what)) end

local function check(what, ok, why)
  if not ok then print('not ok ' .. what .. ': ' .. tostring(why)) end
end

local product = ffi.new 'rgsim_blas_product'
local function last()
  blas.rgsim_blas_last(product)
  return product
end

local function there(x) return x and x:to 'sim:0' end

-- f runs on the CPU and on the GPU: the results are near, and the GPU took `taken` new products by
-- cublasLt (nil: at least one).
local function same(what, f, tensors, taken, rtol, atol)
  local here, gpu = {}, {}
  for k, x in pairs(tensors) do here[k], gpu[k] = x, there(x) end
  ridge.seed(3)
  local wanted = f(here)
  local before = counted(CALLS)
  ridge.seed(3)
  local got = f(gpu)
  local calls = counted(CALLS) - before
  check(what .. ' is computed right', got:to 'cpu':allclose(wanted, rtol or 1e-5, atol or 1e-5),
    got)
  if taken then
    check(what .. ' goes to cublasLt as often as meant', calls == taken, calls)
  else
    check(what .. ' goes to cublasLt', calls > 0, calls)
  end
  return got
end

local function raw(x) return x and x._t or nil end

-- An operation of the C interface, with one result.
local function op(f, ...)
  if f(...) ~= 0 then error(ffi.string(C.rg_error_message()), 2) end
  return ref.wrap(ref.slot[0])
end

local function linear(t, act)
  return op(C.rg_linear, raw(t.x), raw(t.w), raw(t.b), ACT[act or 'none'], ref.slot)
end

local function dropped(t, act, p)
  return op(C.rg_linear_dropout, raw(t.x), raw(t.w), raw(t.b), ACT[act], p, nil, ref.slot)
end

local function lowrank(t, act)
  return op(C.rg_lowrank_linear, raw(t.x), raw(t.v), raw(t.u), raw(t.b), ACT[act or 'none'],
    ref.slot)
end

local function sketched(t, act, p)
  return op(C.rg_sketched_linear, raw(t.x), raw(t.v), raw(t.u), raw(t.b), 2, ACT[act or 'none'],
    p or 0, nil, ref.slot)
end

local function matmul(t) return t.x:matmul(t.y) end

local function rand(...) return ridge.randn(...) end

local run = {}

-- -- Form -----------------------------------------------------------------------------------------

-- What follows the sum: in cublasLt what it does as it is meant, the rest in a pass of our own.
function run.ends()
  local TYPE = { f32 = R_F32, f64 = R_F64, f16 = R_F16, bf16 = R_BF16 }
  for _, dtype in ipairs { 'f32', 'f64', 'f16', 'bf16' } do
    local tol = ({ f32 = 1e-5, f64 = 1e-12, f16 = 4e-3, bf16 = 3e-2 })[dtype]
    for _, with in ipairs { 'bias', 'no bias' } do
      local t = { x = rand(7, 12):to(dtype), w = rand(9, 12):to(dtype),
        b = with == 'bias' and rand(9):to(dtype) or nil }
      for act in pairs(ACT) do
        local what = table.concat({ 'linear', dtype, with, act }, ' ')
        local y = same(what, function(u) return linear(u, act) end, t, nil, tol, tol)
        check(what .. ' has its type', y.dtype == dtype, y.dtype)
        local q = last()
        local whole = (act == 'none' or act == 'relu') and dtype ~= 'f64'
        local epilogue = not whole and DEFAULT or with == 'bias'
          and (act == 'relu' and RELU_BIAS or BIAS) or act == 'relu' and RELU or DEFAULT
        check(what .. ': epilogue', q.epilogue == epilogue, q.epilogue)
        check(what .. ': factors', q.type_a == TYPE[dtype], q.type_a)
        -- sums that our own pass reads are not rounded before it
        local sums = whole and TYPE[dtype] or dtype == 'f64' and R_F64 or R_F32
        check(what .. ': result', q.type_d == sums, q.type_d)
        check(what .. ': sums', q.compute == (dtype == 'f64' and AS_F64 or AS_F32), q.compute)
        check(what .. ': bias', epilogue < BIAS or q.type_bias == sums, q.type_bias)
        what = what .. ', dropout'
        same(what, function(u) return dropped(u, act, 0.4) end, t, nil, tol, tol)
        check(what .. ': epilogue', last().epilogue == DEFAULT, last().epilogue)
      end
    end
  end
  -- a nan stays one
  local x = ridge.tensor { { 0 / 0, 1 }, { 1, -1 } }
  local y = linear({ x = there(x), w = there(ridge.tensor { { 1, 0 }, { 0, 1 } }) }, 'relu')
  check('relu of nan', y:get(1, 1) ~= y:get(1, 1) and y:get(2, 2) == 0, y)
end

-- Each factor by rows and by columns, with gaps between lines that are not multiples of anything.
function run.layouts()
  local function by_columns(x) return x:t():contiguous():t() end
  for _, size in ipairs { { 8, 16, 4 }, { 5, 7, 3 }, { 1, 9, 6 }, { 6, 9, 1 }, { 4, 1, 5 } } do
    local m, k, n = size[1], size[2], size[3]
    local x, y = rand(m, k), rand(k, n)
    local name = ('%d x %d x %d'):format(m, k, n)
    local plain = k > 1
    same(name, matmul, { x = x, y = y })
    check(name .. ' turns nothing', not plain or (last().transa == 0 and last().transb == 0))
    check(name .. ' has our n as its m', last().m == n and last().n == m and last().k == k)
    same(name .. ', x transposed', function(t) return by_columns(t.x):matmul(t.y) end,
      { x = x, y = y })
    check(name .. ', x transposed', m == 1 or k == 1 or last().transb == 1)
    same(name .. ', y transposed', function(t) return t.x:matmul(by_columns(t.y)) end,
      { x = x, y = y })
    check(name .. ', y transposed', n == 1 or k == 1 or last().transa == 1)
    same(name .. ', both transposed', function(t)
      return by_columns(t.x):matmul(by_columns(t.y))
    end, { x = x, y = y })
  end
  -- lines that are parts of longer ones, from any element on
  local x, y = rand(9, 23), rand(23, 31)
  same('parts of lines', function(t)
    return t.x:narrow(2, 4, 11):matmul(t.y:narrow(1, 6, 11):narrow(2, 8, 13))
  end, { x = x, y = y })
  same('parts of columns', function(t)
    return t.y:narrow(2, 8, 13):t():matmul(t.x:narrow(2, 1, 23):narrow(1, 3, 4):t())
  end, { x = rand(9, 25), y = y })
  check('parts of columns are not copied', last().transa == 1 and last().transb == 1)
  same('an address that is not aligned', function(t)
    return t.x:narrow(2, 2, 16):matmul(t.y)
  end, { x = rand(8, 24), y = rand(16, 32) })
  same('every second line', function(t)
    return t.x:narrow(1, 1, 4, 2):matmul(t.y)
  end, { x = x, y = y })
  same('every second element', function(t)
    return t.x:narrow(2, 1, 11, 2):matmul(t.y:narrow(1, 1, 11, 2))
  end, { x = x, y = y })
  same('a repeated line', function(t)
    return t.x:narrow(1, 1, 1):expand(9, 23):matmul(t.y)
  end, { x = x, y = y })
  same('vectors', function(t)
    return t.x:select(1, 2):matmul(t.y) + t.x:select(1, 3):matmul(t.y:select(2, 4))
  end, { x = x, y = y })
  for _, dtype in ipairs { 'f16', 'bf16' } do
    same('unaligned ' .. dtype, function(t)
      return t.x:narrow(2, 2, 11):matmul(t.y:narrow(1, 3, 11):narrow(2, 4, 7))
    end, { x = x:to(dtype), y = y:to(dtype) }, nil, 3e-2, 3e-2)
  end
end

function run.batches()
  local function batch() return last().batch end
  same('a batch', matmul, { x = rand(5, 4, 6), y = rand(5, 6, 3) })
  check('a batch is one call', batch() == 5, batch())
  same('two axes', matmul, { x = rand(2, 3, 4, 6), y = rand(2, 3, 6, 5) })
  check('two axes are one batch', batch() == 6, batch())
  same('the same right factor', matmul, { x = rand(5, 4, 6), y = rand(6, 3) })
  check('the same right factor is a taller product', batch() == 1 and last().n == 20, last().n)
  same('the same left factor', matmul, { x = rand(4, 6), y = rand(5, 6, 3) })
  check('the same left factor stays where it is', batch() == 5, batch())
  same('the same left factor of another type', matmul, { x = rand(4, 6):to 'bf16',
    y = rand(5, 6, 3) })
  check('the same left factor is copied once', batch() == 5, batch())
  same('batches crossed', matmul, { x = rand(5, 1, 4, 6), y = rand(1, 3, 6, 2) })
  check('batches crossed are one batch', batch() == 15, batch())
  same('heads', function(t)
    return t.x:permute(1, 3, 2, 4):matmul(t.y:permute(1, 3, 4, 2))
  end, { x = rand(2, 7, 3, 8), y = rand(2, 5, 3, 8) })
  check('heads are one batch', batch() == 6, batch())
  same('a batch of another type', matmul, { x = rand(5, 4, 6):to 'bf16', y = rand(5, 6, 3) })
  -- rows that are no rows of one matrix: bias and relu of a batch are our own pass
  local t = { x = rand(6, 5, 8), w = rand(4, 8), b = rand(4) }
  same('layers of a batch', function(u)
    return linear({ x = u.x:permute(2, 1, 3):narrow(2, 2, 4), w = u.w, b = u.b }, 'relu')
  end, t)
  check('layers of a batch', batch() == 1 or last().epilogue == DEFAULT)
end

-- Layers of two products; factors of different types.
function run.layers()
  local t = { x = rand(10, 12), v = rand(12, 8), u = rand(8, 7), b = rand(7) }
  for act in pairs(ACT) do
    same('low rank ' .. act, function(u) return lowrank(u, act) end, t, nil, 1e-4, 1e-4)
    same('sketched ' .. act, function(u) return sketched(u, act) end, t, nil, 1e-4, 1e-4)
    same('sketched, dropout ' .. act, function(u) return sketched(u, act, 0.5) end, t, nil, 1e-4,
      1e-4)
  end
  -- known by now: one call for each product
  same('low rank', function(u) return lowrank(u) end, t, 2, 1e-4, 1e-4)
  same('sketched', function(u) return sketched(u) end, t, 2, 1e-4, 1e-4)
  for _, half in ipairs { 'bf16', 'f16' } do
    local tol = 3e-2
    local w = { x = rand(5, 16), w = rand(6, 16), b = rand(6) }
    same('autocast ' .. half, function(u)
      return ridge.autocast(half, function() return linear(u, 'relu') end)
    end, w, nil, tol, tol)
    check('autocast ' .. half .. ' is in one half type',
      last().type_a == (half == 'bf16' and R_BF16 or R_F16) and last().type_d == last().type_a)
    same('mixed ' .. half, function(u) return linear(u) end,
      { x = w.x:to(half), w = w.w, b = w.b }, nil, 1e-4, 1e-4)
    check('mixed ' .. half .. ' is in f32', last().type_a == R_F32 and last().type_d == R_F32)
  end
  same('a bias of another address', function(u)
    return linear { x = u.x, w = u.w, b = u.b:narrow(1, 2, 6) }
  end, { x = rand(5, 16), w = rand(6, 16), b = rand(8) })
  check('a bias of another address is cublasLt\'s', last().epilogue == BIAS, last().epilogue)
end

-- Gradients are products as well.
function run.gradients()
  local x = rand(6, 12)
  local function grads(device, half)
    local layer = ridge.nn.Linear(12, 8, { seed = 1 })
    if device then layer:to(device) end
    layer.weight:requires_grad_()
    local before = counted(CALLS)
    local function loss() return layer(device and x:to(device) or x):tanh():sum() end
    local y = half and ridge.autocast(half, loss) or loss()
    y:backward()
    return layer.weight.grad, counted(CALLS) - before
  end
  for _, half in ipairs { 'none', 'bf16' } do
    local kind = half ~= 'none' and half or nil
    local wanted = grads(nil, kind)
    local got, calls = grads('sim:0', kind)
    local tol = kind and 5e-2 or 1e-5
    check('a gradient, ' .. half, got:to 'cpu':allclose(wanted, tol, tol), got)
    check('a gradient goes to cublasLt, ' .. half, calls >= 2, calls)
  end
  -- the gradient of a weight in f32 is not rounded on its way
  check('factors in bf16, result in f32', last().type_a == R_BF16 and last().type_d == R_F32,
    last().type_a .. ' ' .. last().type_d)
end

-- -- Modes ----------------------------------------------------------------------------------------

function run.modes()
  local t = { x = rand(8, 16), y = rand(16, 8) }
  same('the default', matmul, t)
  check('tf32 only when it is asked for', last().compute == AS_F32, last().compute)
  local exact = t.x:matmul(t.y)
  modes.tf32 = 1
  local near = there(t.x):matmul(there(t.y)):to 'cpu'
  check('tf32 is asked for', last().compute == AS_TF32, last().compute)
  check('tf32 rounds', near:allclose(exact, 1e-2, 1e-2) and not near:allclose(exact, 1e-6, 1e-6))
  same('tf32 leaves bf16 alone', matmul, { x = t.x:to 'bf16', y = t.y:to 'bf16' }, nil, 3e-2, 3e-2)
  check('tf32 leaves bf16 alone', last().compute == AS_F32, last().compute)
  modes.tf32 = 0
  local function path()
    local x, y = there(t.x), there(t.y)
    return ridge.profile(function() return x:matmul(y) end).operations[1].path
  end
  check('the trace says cublasLt', path() == 'cublasLt', path())
  modes.vendor = 0
  check('the trace says tiles', path() == 'tiles', path())
  same('without the vendor', matmul, t, 0)
  same('a layer without the vendor', linear, { x = t.x, w = rand(5, 16), b = rand(5) }, 0)
  modes.vendor = 1
  same('integers', matmul, { x = t.x:to 'i32', y = t.y:to 'i32' }, 0)
end

local function scaled(t, opts)
  return ridge.scaled_linear(t.x, t.w, t.xs, t.ws, { bias = t.b, dtype = opts and opts.dtype,
    activation = opts and opts.activation })
end

-- Bytes: whole sums by cublasLt, what follows in our own pass; and a key of their own.
function run.bytes()
  local function bytes(...) return (rand(...) * 40):to 'i8' end
  local t = { x = bytes(6, 32), w = bytes(8, 32), xs = ridge.rand(6), ws = ridge.rand(8),
    b = rand(8) }
  -- the same sizes in f32 before: what was found for them is not taken for bytes
  same('floats', linear, { x = rand(6, 32), w = rand(8, 32) })
  local asked = counted(HEURISTICS)
  same('bytes', scaled, t)
  check('bytes are a kind of their own', counted(HEURISTICS) == asked + 1, counted(HEURISTICS))
  check('bytes: types', last().type_a == R_I8 and last().type_d == R_I32, last().type_d)
  check('bytes: sums', last().compute == AS_I32, last().compute)
  check('bytes: transposed a alone', last().transa == 1 and last().transb == 0)
  check('bytes: sizes', last().m == 8 and last().n == 6 and last().k == 32)
  same('bytes once more', scaled, t, 1)
  for _, activation in ipairs { 'relu', 'gelu' } do
    local opts = { dtype = 'bf16', activation = activation }
    same('bytes through ' .. activation, function(u) return scaled(u, opts) end, t, 1, 1e-2, 1e-2)
    check('bytes: no epilogue', last().epilogue == DEFAULT, last().epilogue)
  end
  modes.vendor = 0
  same('bytes without the vendor', scaled, t, 0)
  modes.vendor = 1
  t.w, t.ws, t.b = bytes(7, 32), ridge.rand(7), nil
  same('bytes, seven columns', scaled, t, 0)
  check('nothing is refused', counted(MISUSES) == 0, counted(MISUSES))
end

-- 8-bit floats as they are, with scales read by cublasLt, where nothing else follows; widened where
-- it has no such product.  lacks: 'none' where it has none, 'single' where it reads no vectors.
function run.floats(lacks)
  local native, vectors = lacks ~= 'none', lacks == nil
  local R = { f8e4m3 = R_E4M3, f8e5m2 = R_E5M2, f32 = R_F32, bf16 = R_BF16, f16 = R_F16 }
  local asked
  for _, x in ipairs { 'f8e4m3', 'f8e5m2' } do
    for _, w in ipairs { 'f8e4m3', 'f8e5m2' } do
      local what = x .. ' times ' .. w
      local t = { x = rand(32, 64):to(x), w = rand(48, 64):to(w), xs = ridge.rand(1),
        ws = ridge.rand() }
      local as_is = native and not (x == 'f8e5m2' and w == 'f8e5m2')
      for _, dtype in ipairs { 'f32', 'bf16', 'f16' } do
        local opts, tol = { dtype = dtype }, dtype == 'f32' and 1e-5 or 2e-2
        same(what, function(u) return scaled(u, opts) end, t, nil, tol, tol)
        local q = last()
        -- its a is our w
        check(what .. ': types', q.type_a == (as_is and R[w] or R_BF16)
          and q.type_b == (as_is and R[x] or R_BF16), q.type_a .. ' ' .. q.type_b)
        check(what .. ': result', q.type_d == (as_is and R[dtype] or R_F32), q.type_d)
        check(what .. ': scales', q.scales == (as_is and 2 or 0), q.scales)
        check(what .. ': sums', q.compute == AS_F32, q.compute)
      end
      asked = counted(HEURISTICS)
      for name, more in pairs { rows = { xs = ridge.rand(32) }, columns = { ws = ridge.rand(48) },
        bias = { b = rand(48) } } do
        local u = { x = t.x, w = t.w, xs = more.xs or t.xs, ws = more.ws or t.ws, b = more.b }
        same(what .. ': ' .. name, scaled, u, nil, 1e-5, 1e-5)
        check(what .. ': sums with scales of rows or none', last().type_d == R_F32
          and last().scales == (as_is and vectors and name ~= 'bias' and 32 + 48 or 0),
          last().type_d .. ' ' .. last().scales)
      end
      -- an old library is not asked: what describes vectors is not known to it
      check(what .. ': one scale, vectors and none are kinds of their own',
        counted(HEURISTICS) == asked + (as_is and vectors and 2 or as_is and 1 or 0),
        counted(HEURISTICS) - asked)
      if as_is and vectors then -- read where they are, and in a replay again
        local u = { x = t.x, w = t.w, xs = ridge.rand(32), ws = ridge.rand(48) }
        for _, dtype in ipairs { 'bf16', 'f16' } do
          same(what .. ': vectors', function(v) return scaled(v, { dtype = dtype }) end, u, nil,
            2e-2, 2e-2)
          check(what .. ': vectors, result', last().type_d == R[dtype] and last().scales == 80)
        end
      end
    end
  end
  modes.tf32 = 1
  local t = { x = rand(16, 16):to 'f8e4m3', w = rand(16, 16):to 'f8e4m3', xs = ridge.rand(1),
    ws = ridge.rand(1) }
  same('tf32 leaves 8-bit floats alone', scaled, t)
  check('tf32 leaves 8-bit floats alone', last().compute == AS_F32, last().compute)
  check('nothing is refused', counted(MISUSES) == 0, counted(MISUSES))
end

-- Sketched layers with signs as bits or from a seed: by cublasLt with the signs as numbers where
-- there are rows enough and whole eights, of types that hold their sums.
function run.signs()
  local cases = { { 'f32', 128, 32, 40, true }, { 'bf16', 130, 32, 40, true },
    { 'f16', 130, 32, 40, false }, { 'f32', 127, 32, 40, false }, { 'bf16', 130, 32, 36, false } }
  for _, form in ipairs { 'bits', 'seed' } do
    for _, c in ipairs(cases) do
      local dtype, rows, n_in, n_out, by_numbers = unpack(c)
      local what = table.concat({ form, dtype, rows, n_out }, ' ')
      for _, terms in ipairs { 1, 3 } do
        local layer = ridge.nn.SKLinear(n_in, n_out, { num_terms = terms, low_rank = 8, seed = 1,
          form = form, warn = false, activation = 'relu' }):to(dtype)
        local there_layer = ridge.nn.SKLinear(n_in, n_out, { num_terms = terms, low_rank = 8,
          seed = 1, form = form, warn = false, activation = 'relu' }):to(dtype):to 'sim:0'
        local tol = dtype == 'f32' and 1e-5 or 3e-2
        local before = counted(CALLS)
        local x = rand(rows, n_in):to(dtype)
        local got = ridge.inference(there_layer, x:to 'sim:0'):to 'cpu'
        check(what .. ' is computed right', got:allclose(ridge.inference(layer, x), tol, tol), got)
        check(what .. ' goes to cublasLt', (counted(CALLS) > before) == by_numbers)
      end
      check(what .. ': scale', not by_numbers or last().k == 2 * 3 * 8, last().k)
    end
  end
  check('nothing is refused', counted(MISUSES) == 0, counted(MISUSES))
end

-- Which algorithm, when none is timed: the heuristic's first that is allowed and runs.
function run.first()
  modes.autotune = 0
  same('untimed', matmul, { x = rand(8, 16), y = rand(16, 8) }, 1)
  check('untimed takes the first', last().algo == BROKEN, last().algo)
  same('untimed, one fails', matmul, { x = rand(8, 12), y = rand(12, 8) }, 1)
  check('untimed takes the next', last().algo == INPLACE, last().algo)
  check('one failed', counted(FAILURES) == 1, counted(FAILURES))
  same('untimed again', matmul, { x = rand(8, 12), y = rand(12, 8) }, 1)
  check('it is remembered', counted(FAILURES) == 1 and counted(HEURISTICS) == 2)
  -- partial sums of a half type are not added in it
  same('untimed bf16', matmul, { x = rand(8, 12):to 'bf16', y = rand(12, 8):to 'bf16' }, 1, 3e-2,
    3e-2)
  check('a half type adds up in f32', last().algo == SPLIT, last().algo)
  modes.deterministic = 1
  same('deterministic', matmul, { x = rand(8, 12), y = rand(12, 8) }, 1)
  check('deterministic does not add in place', last().algo == SPLIT, last().algo)
  modes.autotune = 1
  same('deterministic is not timed', matmul, { x = rand(8, 12), y = rand(12, 8) }, 1)
  modes.deterministic = 0
  -- it has nothing for these: the plain kernel
  same('what it refuses', matmul, { x = rand(13, 5), y = rand(5, 13) }, 0)
  local asked = counted(HEURISTICS)
  same('what it refuses again', matmul, { x = rand(13, 5), y = rand(5, 13) }, 0)
  check('a refusal is remembered', counted(HEURISTICS) == asked)
end

-- The fastest: RG_SIM_BLAS_FAST says which one that is.
function run.fastest(algo)
  algo = tonumber(algo)
  local x, y = rand(16, 20), rand(20, 8)
  same('timed', matmul, { x = x, y = y })
  check('timing takes the fastest', last().algo == algo, last().algo)
  same('timed before', matmul, { x = x, y = y }, 1)
  check('the fastest is remembered', last().algo == algo, last().algo)
  same('another shape', matmul, { x = rand(16, 21), y = rand(21, 8) })
  local wanted = (algo == BROKEN or algo == WIDE) and 'another' or algo
  check('what cannot run is not the fastest', wanted == 'another' and last().algo ~= algo
    or last().algo == wanted, last().algo)
end

-- -- The file -------------------------------------------------------------------------------------

-- Three products; what the process had to ask for.
function run.file()
  for n = 1, 3 do same('product ' .. n, matmul, { x = rand(4, 4 * n), y = rand(4 * n, 8) }) end
  print(('heuristics %d, checks %d, algorithm %d'):format(counted(HEURISTICS), counted(CHECKS),
    last().algo))
end

-- Another process writes the file after this one has read it.
function run.meanwhile(other)
  same('a product', matmul, { x = rand(5, 16), y = rand(16, 8) })
  os.execute(('cp %s %s/ridge/cublaslt.txt'):format(other, os.getenv 'XDG_CACHE_HOME'))
end

run[assert(arg[1])](arg[2])
check('cublasLt is used as it is meant to be', counted(MISUSES) == 0, counted(MISUSES))
print 'done'
