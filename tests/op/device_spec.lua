-- SPDX-License-Identifier: MIT
-- device_spec: what op_spec's own numbers do not reach: matrices at the edges of their range, more
-- tiles than there are blocks, what a device finds wrong only while it computes, and every pattern
-- of 8-bit floats.

local bit = require 'bit'
local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local reference, tensors = all.reference, all.tensors
local C = tensors.C
local EARG = -4
local EVERY = dofile(HERE .. 'due.lua').EVERY -- of what takes long, as in op_spec
local UNIT = { f32 = 2 ^ -23, f64 = 2 ^ -52 }

tensors.check(C.rg_device_open(tensors.DEVICE))

-- Numbers in (-1, 1), the same in every run.
local state = 7
local function number()
  state = (state * 1103515245 + 12345) % 2147483648
  return state / 1073741824 - 1
end

local function matrix(m, n, dtype, f)
  local x = reference.new({ m, n }, dtype)
  for i = 0, m - 1 do
    for j = 0, n - 1 do x[i * n + j + 1] = reference.convert(f(i, j), dtype) end
  end
  return x
end

local out = ffi.new('rg_tensor *[3]')
local function svd(x)
  local status = C.rg_svd(tensors.make(x, x.shape, x.dtype), out, out + 1, out + 2)
  tensors.check(status)
  local results = {}
  for i = 1, 3 do results[i] = tensors.hold(out[i - 1]) end
  return results
end

local function check(x, ulps)
  local read = {}
  for i, result in ipairs(svd(x)) do read[i] = tensors.read(result) end
  for property, distance in pairs(reference.check_svd({ x }, read)) do
    assert.is_true(distance <= ulps * UNIT[x.dtype],
      ('%s: %s is off by %g'):format(x.dtype, property, distance / UNIT[x.dtype]))
  end
  return read
end

describe('svd', function()
  after_each(tensors.release_all)
  local there = tensors.DEVICE == 0
  for i = 0, C.rg_op_count() - 1 do
    local facts = ffi.new('rg_op_facts')
    tensors.check(C.rg_op_facts_of(i, facts))
    if ffi.string(facts.name) == 'svd' then
      there = there or C.rg_op_runs_on(i, tensors.DEVICE) == 1
    end
  end

  it('runs here', function() assert.is_true(there) end)

  it('takes more vectors than one block turns', function()
    for _, dtype in ipairs { 'f32', 'f64' } do
      check(matrix(67, 70, dtype, number), 128)
    end
  end)

  -- Vectors of which each is orthogonal to all others but one: nothing else turns those two, so two
  -- that never meet stay as they are.  Two whose numbers add up to r: each two in exactly one
  -- matrix.
  for _, k in ipairs { 7, 8, 66 } do
    it(('lets each two of %d vectors meet'):format(k), function()
      for r = 0, k - 1, EVERY do
        check(matrix(k, k, 'f32', function(i, j)
          return i == j and 1 or i < j and (i + j) % k == r and 0.5 or 0
        end), 64)
        tensors.release_all()
      end
    end)
  end

  it('gives whole bases of matrices without full rank', function()
    for _, dtype in ipairs { 'f32', 'f64' } do
      check(matrix(6, 4, dtype, function() return 0 end), 64)
      check(matrix(5, 9, dtype, function(i, j) return i == 2 and j + 1 or 0 end), 64)
      check(matrix(9, 7, dtype, function(i, j) return (i + 1) * (j - 3) + i end), 64)
    end
  end)

  it('knows sizes at the edges of the range', function()
    for _, size in ipairs { 2 ^ 120, 2 ^ -120, 2 ^ -140 } do
      local x = matrix(7, 5, 'f32', function() return number() * size end)
      local s = check(x, size < 2 ^ -130 and 2 ^ 16 or 64)[2]
      assert.is_true(s[1] > size / 4 and s[1] < size * 6)
    end
    check(matrix(7, 5, 'f64', function() return number() * 2 ^ -1000 end), 64)
    check(matrix(7, 5, 'f64', function() return number() * 2 ^ 1000 end), 64)
  end)

  it('separates values far apart', function()
    for dtype, step in pairs { f32 = 2 ^ -12, f64 = 2 ^ -40 } do
      check(matrix(8, 6, dtype, function(_, j) return number() * step ^ j end), 64)
    end
  end)

  it('refuses what is not finite', function()
    for _, wrong in ipairs { 0 / 0, math.huge } do
      local x = matrix(4, 3, 'f32', function(i, j) return i == 2 and j == 1 and wrong or 1 end)
      local t = tensors.make(x, x.shape, x.dtype)
      local status = C.rg_svd(t, out, out + 1, out + 2)
      if tensors.DEVICE ~= 0 then
        tensors.check(status)
        for i = 1, 3 do tensors.hold(out[i - 1]) end
        status = C.rg_device_wait(tensors.DEVICE)
      end
      assert.are.equal(EARG, status)
      assert.is_truthy(tensors.failure(status):find('nan or infinity', 1, true))
    end
  end)
end)

-- The CPU follows such an index; a device, which gathers, has no place for it.
if tensors.DEVICE ~= 0 then
  describe('max_pool2d_back', function()
    it('says which index does not lie in its window', function()
      local o = ffi.new('rg_pool2d_options')
      o.size[0], o.size[1], o.stride[0], o.stride[1] = 2, 2, 2, 2
      local dy = tensors.make({ 1, 2 }, { 1, 1, 1, 2 }, 'f32')
      local index = tensors.make({ 2, 7 }, { 1, 1, 1, 2 }, 'i32')
      tensors.check(C.rg_max_pool2d_back(dy, index, 2, 4, o, out))
      tensors.hold(out[0])
      local status = C.rg_device_wait(tensors.DEVICE)
      assert.are.equal(EARG, status)
      assert.is_truthy(tensors.failure(status):find('index 2 is not in its window', 1, true))
      tensors.release_all()
    end)

    it('says so of every element beside a window, and of none inside', function()
      local o = ffi.new('rg_pool2d_options')
      o.size[0], o.size[1], o.stride[0], o.stride[1] = 2, 2, 2, 2
      for at = 0, 35 do -- of 6 x 6; the window in the middle holds 14, 15, 20 and 21
        local index = tensors.make({ 0, 2, 4, 12, at, 16, 24, 26, 28 }, { 1, 1, 3, 3 }, 'i32')
        local dy = tensors.make({ 0, 0, 0, 0, 1, 0, 0, 0, 0 }, { 1, 1, 3, 3 }, 'f32')
        tensors.check(C.rg_max_pool2d_back(dy, index, 6, 6, o, out))
        tensors.hold(out[0])
        local inside = at == 14 or at == 15 or at == 20 or at == 21
        assert.are.equal(inside and 0 or EARG, C.rg_device_wait(tensors.DEVICE), at)
        tensors.release_all()
      end
    end)
  end)
end

-- -- 8-bit floats ---------------------------------------------------------------------------------

local slot = ffi.new('rg_tensor *[1]')

-- A tensor of bytes that lie so in memory; where: 0 is the CPU.
local function tensor_of(bytes, n, dtype, where)
  tensors.check(C.rg_empty(tensors.CODES[dtype], 0, ffi.new('int64_t[2]', n / 4, 4), 2, slot))
  local x = tensors.hold(slot[0])
  tensors.check(C.rg_tensor_write(x, bytes, C.rg_tensor_bytes(x)))
  if where == 0 then return x end
  tensors.check(C.rg_to_device(x, where, slot))
  return tensors.hold(slot[0])
end

local function cast(x, dtype)
  tensors.check(C.rg_cast(x, tensors.CODES[dtype], slot))
  return tensors.bytes(tensors.hold(slot[0]))
end

-- The bytes of an array become the same as elements side by side and as columns, and on the CPU.
local function same_everywhere(bytes, n, from, to)
  local x = tensor_of(bytes, n, from, tensors.DEVICE)
  local wanted = cast(tensor_of(bytes, n, from, 0), to)
  assert.is_true(cast(x, to) == wanted, from .. ' to ' .. to)
  tensors.check(C.rg_transpose(x, 0, 1, slot))
  tensors.check(C.rg_cast(tensors.hold(slot[0]), tensors.CODES[to], slot))
  tensors.check(C.rg_transpose(tensors.hold(slot[0]), 0, 1, slot))
  assert.is_true(tensors.bytes(tensors.hold(slot[0])) == wanted,
      from .. ' to ' .. to .. ', transposed')
end

describe('conversion of 8-bit floats', function()
  after_each(tensors.release_all)

  -- roundings turn where the lower half of an f32 is 0
  it('makes the same bits of f32 as the CPU: each upper half, and beside it', function()
    local lower, n = { 0, 1, 0xffff }, math.max(4, math.floor(65536 * 3 / EVERY / 4) * 4)
    local x = ffi.new('uint32_t[?]', n)
    for i = 0, n - 1 do
      x[i] = math.floor(i / 3) * EVERY % 65536 * 65536 + lower[i % 3 + 1]
    end
    for _, to in ipairs(tensors.STORED) do same_everywhere(x, n, 'f32', to) end
  end)

  it('makes the same bits of halves, doubles and whole numbers as the CPU', function()
    local halves, doubles, whole = ffi.new 'uint16_t[65536]', ffi.new 'double[4096]',
      ffi.new 'int64_t[4096]'
    local function without_nan(exponents) -- whose sign CUDA's own conversions of halves drop
      for i = 0, 65535 do
        halves[i] = bit.band(i, 0x7fff) > exponents and bit.band(i, 0x8000) or i
      end
      return halves
    end
    for i = 0, 4095 do
      -- ties of both types, and a little beside them
      local v = math.ldexp(8 + i % 16 / 2, math.floor(i / 16) % 36 - 21)
      doubles[i] = v * (1 + (i % 3 - 1) * 2 ^ -45) * (i % 2 == 0 and 1 or -1)
      whole[i] = i < 2048 and i - 1024 or math.floor(2 ^ ((i - 2048) / 33)) * (i % 2 * 2 - 1)
    end
    for _, to in ipairs(tensors.STORED) do
      same_everywhere(without_nan(0x7c00), 65536, 'f16', to)
      same_everywhere(without_nan(0x7f80), 65536, 'bf16', to)
      same_everywhere(doubles, 4096, 'f64', to)
      same_everywhere(whole, 4096, 'i64', to)
    end
  end)

  it('makes of each pattern the same bits of every type as the CPU', function()
    local x = ffi.new 'uint8_t[256]'
    for _, from in ipairs(tensors.STORED) do
      for _, to in ipairs(tensors.EVERY) do
        local halves = to == 'f16' or to == 'bf16'
        for i = 0, 255 do
          local finite = i % 128 <= (from == 'f8e4m3' and 0x7e or 0x7c)
          x[i] = (finite or not halves) and i or 0
        end
        same_everywhere(x, 256, from, to)
      end
    end
  end)
end)

describe('a transposed copy', function()
  after_each(tensors.release_all)

  -- A tile of 32 by 32 elements, or of 64 by 64 narrow ones, is one turn of a block; a simulated
  -- device has 256 blocks, and the strip has more tiles, so each block takes the next one.
  for dtype, side in pairs { f32 = 32, f64 = 32, i8 = 64, bf16 = 64 } do
    it('of more tiles than there are blocks is whole in ' .. dtype, function()
      local rows, cols = 600 * side + 3, 17
      local x = tensors.empty({ cols, rows }, dtype)
      if dtype == 'i8' then
        tensors.check(C.rg_randint_(x, 0, 100, nil))
      else
        tensors.check(C.rg_uniform_(x, 0, 100, nil))
      end
      tensors.check(C.rg_transpose(x, 0, 1, out))
      local y = tensors.empty({ rows, cols }, dtype)
      tensors.check(C.rg_copy_(y, tensors.hold(out[0])))
      local from, to = tensors.read(x), tensors.read(y)
      for i = 0, rows - 1 do
        for j = 0, cols - 1 do
          if to[i * cols + j + 1] ~= from[j * rows + i + 1] then
            error(('row %d, column %d: %g, wanted %g'):format(i, j, to[i * cols + j + 1],
              from[j * rows + i + 1]), 0)
          end
        end
      end
    end)
  end
end)

describe('a number that is no row', function()
  after_each(tensors.release_all)

  it('is told with its place, which counts from 1, and the rows there are', function()
    if tensors.DEVICE ~= 0 then return end -- a device tells it later, without the place
    local index = tensors.make({ 0, 2, 7 }, { 3 }, 'i64')
    local function said(status)
      assert.are.equal(EARG, status)
      return ffi.string(C.rg_error_message())
    end
    local x = tensors.make({ 1, 2, 3, 4, 5, 6 }, { 3, 2 }, 'f32')
    assert.are.equal('take: number 7 at place 3 is no row; they go from 0 to 2',
      said(C.rg_take(x, index, out)))
    assert.are.equal('take_back: number 7 at place 3 is no row; they go from 0 to 4',
      said(C.rg_take_back(x, index, 5, out)))
  end)
end)

describe('rows that are taken by number', function()
  after_each(tensors.release_all)

  it('move 16 bytes at a time where they lie so', function()
    if tensors.DEVICE == 0 then return end
    local function way(shape)
      local x, index = tensors.empty(shape, 'f32'), tensors.make({ 2, 0 }, { 2 }, 'i64')
      return tensors.events(function()
        tensors.check(C.rg_take(x, index, out))
        tensors.hold(out[0])
      end)[1][2]
    end
    assert.are.equal('packs', way { 3, 2, 8 })
    assert.are.equal('packs', way { 3, 1, 4 })
    assert.are.equal('elements', way { 3, 2, 3 })
  end)
end)

-- Rows of one number are added up in the order of the index: fifty of most numbers, a few hundred
-- of one, which is another way of finding them; of some numbers there is one row.
describe('rows that are added up by number', function()
  after_each(tensors.release_all)

  for _, given in ipairs { { n = 100, rows = 7, width = 8 }, { n = 3000, rows = 53, width = 3 },
    { n = 3000, rows = 53, width = 264 }, { n = 3000, rows = 40000, width = 4 },
    { n = 3, rows = 2, width = 2 ^ 20 + 8 } } do -- longer rows than one launch of a GPU takes
    it(('are so in order: %d of %d in %d'):format(given.n, given.width, given.rows), function()
      local index, values, wanted = {}, {}, {}
      local width = given.width
      for i = 1, given.rows * width do wanted[i] = 0 end
      for i = 1, given.n do
        index[i] = i % 5 == 0 and 2 or i * i * 7 % math.min(given.rows, 53)
        if given.rows > 100 + given.n and i > given.n - 99 then index[i] = 100 + i end -- once
        for k = 1, width do
          local v = reference.convert(math.sin(i * width + k) * 2 ^ (i * 31 % 23), 'f32')
          local at = index[i] * width + k
          values[(i - 1) * width + k] = v
          wanted[at] = reference.convert(wanted[at] + v, 'f32')
        end
      end
      local dy = tensors.make(values, { given.n, width }, 'f32')
      local places = tensors.make(index, { given.n }, 'i64')
      for _ = 1, 2 do
        tensors.check(C.rg_take_back(dy, places, given.rows, out))
        local got = tensors.read(tensors.hold(out[0]))
        for i = 1, given.rows * width do
          if got[i] ~= wanted[i] then
            error(('element %d is %.9g, not %.9g'):format(i, got[i], wanted[i]), 0)
          end
        end
      end
    end)
  end
end)

-- A product and a sum stay two roundings there as well, so a progression has the CPU's own bits.
describe('a progression', function()
  after_each(tensors.release_all)

  for _, dtype in ipairs { 'f32', 'f64', 'bf16', 'f16' } do
    it('has the same bits on every device: ' .. dtype, function()
      local x = tensors.empty({ 9001 }, dtype)
      tensors.check(C.rg_arange_(x, 0.3, 0.1))
      for i, v in ipairs(tensors.read(x)) do
        assert.equal(reference.convert(0.3 + (i - 1) * 0.1, dtype), v, i)
      end
    end)
  end
end)

-- Joined in a plan, elementwise functions are computed eight at a time where whole eights lie so.
describe('a chain', function()
  after_each(tensors.release_all)

  for _, dtype in ipairs { 'f32', 'bf16', 'f16' } do
    it('gives what its steps give, in whole eights and what is left: ' .. dtype, function()
      for count = 64, 67, 3 do
        local values, wanted = {}, {}
        for i = 1, count do values[i], wanted[i] = i - 32, (32 - i) / 2 + 1 end
        local x, made = tensors.make(values, { count }, dtype), ffi.new 'rg_tensor *[3]'
        local plan = ffi.new 'rg_plan *[1]'
        tensors.check(C.rg_capture_begin())
        tensors.check(C.rg_neg(x, made))
        tensors.check(C.rg_mul_scalar(tensors.hold(made[0]), 0.5, 0, made + 1))
        tensors.check(C.rg_add_scalar(tensors.hold(made[1]), 1, 0, made + 2))
        tensors.check(C.rg_capture_end(plan))
        local y = tensors.hold(made[2])
        tensors.check(C.rg_fill_(y, 7))
        tensors.check(C.rg_plan_replay(plan[0], 1))
        local got = tensors.read(y)
        for i = 1, count do assert.equal(wanted[i], got[i], i) end
        C.rg_plan_release(plan[0])
      end
    end)
  end
end)

describe('rows of a half type', function()
  after_each(function()
    C.rg_autocast_set(-1)
    tensors.release_all()
  end)

  it('give f32 under autocast, as the same numbers in f32 do', function()
    for _, n in ipairs { 72, 520, 1304, 8208 } do -- in few packs a thread, in more, by a block
      local x = matrix(9, n, 'bf16', function() return 3 * number() end)
      local weight = matrix(1, n, 'f32', number)
      local half, whole = tensors.make(x, x.shape, 'bf16'), tensors.make(x, x.shape, 'f32')
      local w = tensors.make(weight, { n }, 'f32')
      for name, f in pairs {
        layer_norm = function(t) return C.rg_layer_norm(t, w, w, 1e-5, 0, out) end,
        softmax = function(t) return C.rg_softmax(t, 1, out) end,
      } do
        tensors.check(f(whole))
        local wanted = tensors.read(tensors.hold(out[0]))
        C.rg_autocast_set(C.RG_BF16)
        tensors.check(f(half))
        C.rg_autocast_set(-1)
        local got = tensors.read(tensors.hold(out[0]))
        assert.are.equal('f32', got.dtype)
        for i = 1, 9 * n do
          assert.is_true(math.abs(got[i] - wanted[i]) <= 1e-5,
            ('%s of %d, element %d: %g, wanted %g'):format(name, n, i, got[i], wanted[i]))
        end
      end
    end
  end)
end)

-- What a call keeps for its gradient is seen by that alone.
-- A sum that left its type is made again, by all the lanes that a row has.
describe('a norm of a long row', function()
  after_each(tensors.release_all)
  for _, p in ipairs { 2, 3 } do
    for dtype, size in pairs { f32 = 3e30, f64 = 3e200 } do
      it(('is right where its sum is not: %s, p = %d'):format(dtype, p), function()
        local x = matrix(3, 1200, dtype, function(i) return i == 1 and 1 or size end)
        local axes = ffi.new('int32_t[1]', 1)
        tensors.check(C.rg_norm(tensors.make(x, x.shape, dtype), p, axes, 1, 0, out))
        for i, got in ipairs(tensors.read(tensors.hold(out[0]))) do
          local want = (i == 2 and 1 or size) * 1200 ^ (1 / p)
          assert.is_true(math.abs(got / want - 1) < 1e-5, ('row %d is %g'):format(i, got))
        end
      end)
    end
  end
end)

describe('the gradient of layer_norm', function()
  after_each(tensors.release_all)

  for _, case in ipairs { { 900, 72 }, { 40, 1304 }, { 3, 8200 }, { 5, 33 } } do
    for rms = 0, 1 do
      it(('is that of its own forward pass: %d x %d, rms = %d'):format(case[1], case[2], rms),
        function()
          local rows, n = unpack(case)
          local x, dy = matrix(rows, n, 'f32', number), matrix(rows, n, 'f32', number)
          local mean, scale = reference.new({ rows }, 'f32'), reference.new({ rows }, 'f32')
          for i = 0, rows - 1 do
            local sum, squares = 0, 0
            for j = 1, n do sum = sum + x[i * n + j] end
            mean[i + 1] = rms == 0 and sum / n or 0
            for j = 1, n do squares = squares + (x[i * n + j] - mean[i + 1]) ^ 2 end
            scale[i + 1] = 1 / math.sqrt(squares / n + 0.25)
          end
          local given = tensors.make(x, { rows, n }, 'f32')
          tensors.check(C.rg_require_grad(given, 1))
          tensors.check(C.rg_layer_norm(given, nil, nil, 0.25, rms, out))
          local y = tensors.hold(out[0])
          tensors.check(C.rg_backward(y, tensors.make(dy, { rows, n }, 'f32'), 0))
          tensors.check(C.rg_grad_of(given, out))
          local got = tensors.read(tensors.hold(out[0]))
          local wanted = reference.layer_norm_back({ dy, x, false, mean, scale },
            { rms = rms == 1 })[1]
          for i = 1, rows * n do
            if not (math.abs(got[i] - wanted[i]) <= 1e-5) then
              error(('element %d is %.9g, wanted %.9g'):format(i, got[i], wanted[i]), 0)
            end
          end
        end)
    end
  end
end)

describe('the gradient of a maximum', function()
  after_each(tensors.release_all)

  -- each number in so many neighbouring channels
  local function spread(list, channels)
    local values = {}
    for i, v in ipairs(list) do
      for c = 1, channels do values[(i - 1) * channels + c] = v end
    end
    return values
  end

  -- Checks the gradient of images of two rows, pooled in windows of two by two, or of three by
  -- three with a border.
  local function arrives(shape, layout, x, dy, wanted, border)
    local o = ffi.new 'rg_pool2d_options'
    local y_shape = { unpack(shape) }
    for i = 0, 1 do
      local axis = layout == 1 and 2 + i or 3 + i
      o.size[i], o.stride[i], o.layout, y_shape[axis] = 2, 2, layout, shape[axis] / 2
      if border then o.size[i], o.pad_low[i], o.pad_high[i] = 3, 1, 1 end
    end
    x = tensors.make(x, shape, 'f32')
    tensors.check(C.rg_require_grad(x, 1))
    tensors.check(C.rg_max_pool2d(x, o, out))
    local y = tensors.hold(out[0])
    tensors.check(C.rg_backward(y, tensors.make(dy, y_shape, 'f32'), 0))
    tensors.check(C.rg_grad_of(x, out))
    local got = tensors.read(tensors.hold(out[0]))
    for i, v in ipairs(wanted) do assert.are.equal(v, got[i], 'element ' .. i) end
  end

  local inf, nan = math.huge, 0 / 0
  local UPPER, LOWER = { -inf, -inf, 1, 2, 5, 5 }, { -inf, -inf, nan, 9, 5, 5 }
  local ABOVE, BELOW = { 3, 0, 0, 0, 7, 0 }, { 0, 0, 4, 0, 0, 0 }

  local function joined(...)
    local whole = {}
    for _, list in ipairs { ... } do
      for _, v in ipairs(list) do whole[#whole + 1] = v end
    end
    return whole
  end

  for _, channels in ipairs { 1, 16 } do
    it('goes to the first of equals, -inf too, and to nan: ' .. channels, function()
      arrives({ 1, 2, 6, channels }, 1, spread(joined(UPPER, LOWER), channels),
        spread({ 3, 4, 7 }, channels), spread(joined(ABOVE, BELOW), channels))
    end)
  end

  it('goes there in rows that are taken in packs', function()
    arrives({ 1, 1, 2, 12 }, 0, joined(UPPER, UPPER, LOWER, LOWER), { 3, 4, 7, 3, 4, 7 },
      joined(ABOVE, ABOVE, BELOW, BELOW))
    local none, x = { 0, 0, 0, 0, 0, 0, 0, 0 }, {}
    for i = 1, 16 do x[i] = -inf end
    arrives({ 1, 1, 2, 8 }, 0, x, { 3, 4, 7, 9 }, joined({ 3, 4, 0, 7, 0, 9, 0, 0 }, none), true)
  end)
end)

if tensors.DEVICE ~= 0 then
  describe('pooling', function()
    after_each(tensors.release_all)

    it('counts in 64 bits where windows end behind the last number of 32', function()
      local wide = 2 ^ 31 - 1
      local one = tensors.make({ 1 }, { 1, 1, 1, 1 }, 'f32')
      tensors.check(C.rg_expand(one, ffi.new('int64_t[4]', 1, 1, 1, wide), 4, out))
      local x = tensors.hold(out[0])
      local o = ffi.new 'rg_pool2d_options'
      o.size[0], o.size[1], o.stride[0], o.stride[1] = 1, 3, 1, (wide - 1) / 6
      o.pad_low[1], o.pad_high[1] = 1, 1
      tensors.check(C.rg_avg_pool2d(x, o, out))
      local y = tensors.read(tensors.hold(out[0]))
      assert.are.same({ 1, 1, 1, 7 }, y.shape)
      for i = 1, 7 do
        assert.is_true(math.abs(y[i] - (i % 6 == 1 and 2 / 3 or 1)) < 1e-6, i .. ': ' .. y[i])
      end
    end)
  end)

  -- The CPU's kernels widen half types in memory beside them.
  describe('a call in a half type', function()
    after_each(tensors.release_all)

    local function window()
      local o = ffi.new 'rg_pool2d_options'
      o.size[0], o.size[1], o.stride[0], o.stride[1] = 2, 2, 2, 2
      return o
    end
    for name, f in pairs {
      max_pool2d = function(x) return C.rg_max_pool2d(x, window(), out) end,
      avg_pool2d = function(x) return C.rg_avg_pool2d(x, window(), out) end,
      avg_pool2d_back = function(x) return C.rg_avg_pool2d_back(x, 128, 128, window(), out) end,
      take_back = function(x)
        local index = tensors.make({ 3, 1 }, { 2 }, 'i32')
        return C.rg_take_back(x, index, 9, out)
      end,
      attention = function(x)
        return C.rg_attention(x, x, x, nil, ffi.new('rg_attention_options', { 0, 0, 0 }), out)
      end,
    } do
      it('asks for no memory beside its results: ' .. name, function()
        local x = tensors.empty({ 2, 8, 64, 64 }, 'bf16')
        tensors.check(C.rg_fill_(x, 1))
        local memory = C.rg_memory_of(tensors.DEVICE)
        tensors.check(f(x))
        tensors.hold(out[0])
        local before = tonumber(memory.live_bytes)
        C.rg_memory_reset_peak(tensors.DEVICE)
        tensors.check(f(x))
        local y = tensors.hold(out[0])
        -- and what is small: where maxima were in i32, sums of rows, indices
        local most = tonumber(C.rg_tensor_bytes(y)) * (name == 'max_pool2d' and 3 or 1) + 16384
        local more = tonumber(memory.peak_bytes) - before
        assert.is_true(more <= most, ('%d bytes of %d'):format(more, most))
      end)
    end
  end)
end
