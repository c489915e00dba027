-- SPDX-License-Identifier: MIT
-- ridge.packed_linear, ridge.sparse_linear, ridge.scaled_add and ridge.scaled_pool2d as they are
-- typed: against what they stand for, in plans and graphs, and what is said of mistakes.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'

local function flat(x) return x:reshape(x.count):tolist() end

local function near(a, b)
  local worst = (a:to 'f64' - b:to 'f64'):abs():max():item()
  assert.is_true(worst <= 1e-4 * math.max(1, b:abs():max():item()), 'off by ' .. worst)
end

local function says(text, f)
  local ok, err = pcall(f)
  assert.is_false(ok)
  assert.matches(text, tostring(err), 1, true)
  assert.matches('bytes_spec.lua:', tostring(err), 1, true)
end

-- f in a plan after its inputs changed, and its record in a graph.
local function replays(name, x, f)
  local plan = ridge.capture(f)
  x:copy_(x * 2)
  assert.same(flat(f()), flat(plan()))
  assert.matches(name, tostring(ridge.graph(f)), 1, true)
end

describe('weights of a few bits', function()
  it('come from ridge.quantize, and multiply as what they stand for', function()
    ridge.seed(3)
    for _, bits in ipairs { 2, 3, 4, 6, 8 } do
      local w, x = ridge.randn(40, 192), ridge.randn(6, 192)
      local most, half = 2 ^ bits - 1, 2 ^ (bits - 1)
      local scale = (w:reshape(40, 3, 64):abs():max(3) / (half - 0.5)):to 'f16'
      local codes = ridge.quantize(w, scale:to 'f32', half, { type = 'u8', group = 64 })
        :minimum(most):to 'u8'
      local packed = ridge.pack_bits(codes, { bits = bits })
      assert.same({ 40, 24 * bits }, packed.shape)
      assert.same(flat(codes), flat(ridge.unpack_bits(packed, { bits = bits })))
      local wide = ridge.dequantize(codes, scale:to 'f32', half, { group = 64 })
      local o = { bits = bits, group = 64, bias = ridge.randn(40), activation = 'relu' }
      local wanted = (x:matmul(wide:transpose(1, 2)) + o.bias):relu()
      near(ridge.packed_linear(x, packed, scale, o), wanted)
      near(ridge.packed_linear(x[2], packed, scale, o), wanted[2])
      -- the same codes with what code 0 stands for
      o.min = (scale:to 'f32' * -half):to 'f16'
      near(ridge.packed_linear(x, packed, scale, o), wanted)
      near(ridge.packed_linear(x:narrow(1, 1, 2), packed, scale, o), wanted:narrow(1, 1, 2))
      local q, s = ridge.quantize_rows(x)
      o.x_scale = s
      near(ridge.packed_linear(q, packed, scale, o), ridge.packed_linear(q:to 'f32' * s, packed,
        scale, { bits = bits, group = 64, bias = o.bias, activation = 'relu', min = o.min }))
    end
  end)

  it('are replayed in plans, and refused by one sentence', function()
    local w = ridge.pack_bits(ridge.full(9, 3, 32, { dtype = 'u8' }), { bits = 4 })
    local scale, x = ridge.full(0.5, 3, 1, { dtype = 'f16' }), ridge.ones(2, 32)
    replays('packed_linear', x, function()
      return ridge.packed_linear(x, w, scale, { bits = 4 })
    end)
    says('packed_linear: codes of 5 bits, wanted 2, 3, 4, 6 or 8', function()
      ridge.packed_linear(x, w, scale, { bits = 5 })
    end)
    says('option bits', function() ridge.packed_linear(x, w, scale, {}) end)
    says('pack_bits: code 9 at 1 does not fit into 3 bits', function()
      ridge.pack_bits(ridge.full(9, 1, 32, { dtype = 'u8' }), { bits = 3 })
    end)
    says('packed_linear: has no gradient', function()
      ridge.packed_linear(ridge.ones(2, 32):requires_grad_(), w, scale, { bits = 4 }):sum()
        :backward()
    end)
  end)
end)

describe('weights most of which are 0', function()
  it('are kept in rows and in blocks, and multiply as what they are', function()
    ridge.seed(4)
    local w = ridge.randn(48, 70)
    w = w * ridge.rand(3, 1, 70):gt(0.8):to('f32'):expand(3, 16, 70):reshape(48, 70)
    w:narrow(1, 17, 16):fill_(0)
    for _, block in ipairs { 1, 16 } do
      local s = ridge.sparse(w, { block = block })
      assert.equal(48 / block + 1, s.offset.count)
      assert.equal(w:ne(0):to('i32'):sum():item(), s.values:ne(0):to('i32'):sum():item())
      for _, m in ipairs { 1, 3, 9 } do
        local x, b = ridge.randn(m, 70), ridge.randn(48)
        near(ridge.sparse_linear(x, s, { bias = b, activation = 'relu' }),
          (x:matmul(w:transpose(1, 2)) + b):relu())
        near(ridge.sparse_linear(x:to 'bf16', s), x:to('bf16'):to('f32'):matmul(w:transpose(1, 2)))
      end
    end
    local x, s = ridge.randn(2, 70), ridge.sparse(w)
    replays('sparse_linear', x, function() return ridge.sparse_linear(x, s) end)
  end)

  it('read no column that is not there', function()
    local s = ridge.sparse(ridge.tensor { { 0, 2, 0 }, { 1, 0, 3 } })
    assert.same({ { 0, 1, 3 }, { 1, 0, 2 }, { 2, 1, 3 } }, { s.offset:tolist(), s.column:tolist(),
      s.values:tolist() })
    local x = ridge.ones(1, 3)
    for _, bad in ipairs { { { column = { 1, 0, 3 } }, 'a column is outside of 0 .. 2' },
      { { column = { -1, 0, 2 } }, 'a column is outside of 0 .. 2' },
      { { offset = { 0, 1, 4 } }, 'offsets go from 0 to 4, wanted 0 to 3' },
      { { offset = { 1, 1, 3 } }, 'offsets go from 1 to 3, wanted 0 to 3' },
      { { offset = { 0, 5, 3 } }, 'offset 2 is 5, behind one of 0' } } do
      local t = { offset = s.offset, column = s.column, values = s.values }
      for k, v in pairs(bad[1]) do t[k] = ridge.tensor(v, { dtype = 'i32' }) end
      says('sparse_linear: ' .. bad[2], function() ridge.sparse_linear(x, t) end)
    end
    says('sparse_linear: a weight is {offset', function() ridge.sparse_linear(x, x) end)
    says('sparse: w is', function() ridge.sparse(ridge.ones(17, 3), { block = 16 }) end)
  end)

  it('are kept as n of each m inputs, exactly, by every instruction set', function()
    -- whole numbers: sums are exact in whichever order
    local script = [[
      local ridge = require 'ridge'
      ridge.seed(5)
      for _, size in ipairs { { 48, 70 }, { 33, 64 }, { 1, 5 }, { 5, 33 } } do
        for n, m in ('2:4 1:4 4:8 1:16 3:16 1:2 3:8'):gmatch '(%d+):(%d+)' do
          local k = size[2] + -size[2] % m
          local w = (ridge.randn(size[1], k) * 20):round()
          local parts = w:reshape(-1, tonumber(m))
          local _, at = parts:abs():topk(tonumber(n), 2)
          w = ridge.zeros(parts:size(1), tonumber(m)):scatter(2, at, parts:gather(2, at))
            :reshape(size[1], k):narrow(2, 1, size[2])
          for _, kind in ipairs { 'f32', 'bf16' } do
            local kept = ridge.sparse(w:to(kind), { pattern = n .. ':' .. m })
            for _, rows in ipairs { 1, 2, 3, 4, 9 } do
              local x = (ridge.randn(rows, size[2]) * 10):round()
              local b = (ridge.randn(size[1]) * 10):round()
              local apart = ridge.sparse_linear(x, kept, { bias = b, activation = 'relu' })
                - (x:matmul(w:t()) + b):relu()
              assert(apart:abs():max():item() == 0, ('%s:%s %s %d'):format(n, m, kind, rows))
            end
          end
        end
      end
      io.write 'equal']]
    local path = os.tmpname() .. '.lua'
    local file = assert(io.open(path, 'w'))
    file:write(script)
    file:close()
    finally(function() os.remove(path) end)
    for _, isa in ipairs { 'base', 'avx2', 'avx512' } do
      local pipe = assert(io.popen(('RIDGE_ISA=%s ./ridge %s 2>&1'):format(isa, path)))
      assert.equal(isa .. ': equal', isa .. ': ' .. pipe:read '*a')
      pipe:close()
    end
  end)

  it('read nothing outside of n of m, whatever an index is', function()
    local kept = ridge.sparse(ridge.tensor { { 0, 2, 0, 5, 7 } }, { pattern = '2:4' })
    assert.same({ 1, { 1, 4, 16 }, { 1, 8, 16 } }, { kept.rows, kept.index:size(),
      kept.values:size() })
    kept.index = ridge.full(255, 1, 4, 16, { dtype = 'u8' })
    assert.equal(0, ridge.sparse_linear(ridge.ones(1, 5), kept):item()) -- behind the last input
    says('sparse_linear: rows of a weight is a whole number', function()
      ridge.sparse_linear(ridge.ones(1, 5), { index = kept.index, values = kept.values,
        columns = 5 })
    end)
    says('more than 2 of 4 inputs', function()
      ridge.sparse(ridge.ones(1, 4), { pattern = '2:4' })
    end)
    for _, pattern in ipairs { '2:5', '4:4', '0:4', '4', '1:32' } do
      says('sparse: option pattern is', function()
        ridge.sparse(ridge.zeros(1, 32), { pattern = pattern })
      end)
    end
    says('by option block or by option pattern', function()
      ridge.sparse(ridge.zeros(16, 4), { block = 16, pattern = '2:4' })
    end)
    says('its last axis is to have 16 elements', function()
      ridge.sparse_linear(ridge.ones(1, 17), ridge.sparse(ridge.zeros(1, 16), { pattern = '1:4' }))
    end)
    local x = ridge.ones(3, 5)
    local again = ridge.sparse(ridge.tensor { { 0, 2, 0, 5, 7 } }, { pattern = '2:4' })
    assert.same({ { 14 }, { 14 }, { 14 } }, ridge.sparse_linear(x, again):tolist())
    replays('n_of_m_linear', x, function() return ridge.sparse_linear(x, again) end)
  end)
end)

describe('weights of bytes', function()
  -- What is packed stays with the memory: parts of it that begin at the same place, have as many
  -- numbers, or lie in other steps are other weights.
  it('are kept packed for each way of looking at them, as they are now', function()
    ridge.seed(5)
    local function bytes(...) return (ridge.rand(...) * 255 - 127.5):round():to 'i8' end
    local all = bytes(40, 64):set_param(true)
    local function ways()
      local wide = all:reshape(20, 128)
      return { all, all:narrow(1, 1, 20), all:narrow(1, 21, 20), wide:narrow(2, 1, 64),
        wide:narrow(2, 65, 64), all:narrow(1, 1, 16):narrow(2, 1, 32), all:narrow(2, 1, 32),
        all:reshape(80, 32), all:narrow(1, 1, 32):reshape(64, 32):transpose(1, 2), wide,
        all:reshape(40, 32, 2):select(3, 1),
        -- rows of whole words that begin in the middle of one
        all:reshape(-1):narrow(1, 1, 38 * 66):reshape(38, 66):narrow(2, 1, 64) }
    end
    for _ = 1, 2 do
      for i, w in ipairs(ways()) do
        local x = bytes(3, w:size(2))
        local wanted = x:to 'f32':matmul(w:contiguous():to 'f32':transpose(1, 2))
        assert.same(flat(wanted), flat(ridge.scaled_linear(x, w, 1, 1)), i)
        assert.same(flat(wanted), flat(ridge.scaled_linear(x, w, 1, 1)), i)
      end
      -- and are not packed once more at each call
      assert.is_true(tonumber(C.rg_tensor_packed_bytes(all._t)) > 0)
      ridge.no_grad(function() all:copy_(bytes(40, 64)) end)
    end
  end)
end)

describe('bytes from layer to layer', function()
  it('are added with their scales, or get another one', function()
    local a = ridge.tensor({ 10, -20, 127, 0 }, { dtype = 'i8' })
    local b = ridge.tensor({ 200, 100, 0, 101 }, { dtype = 'u8' })
    assert.same({ 105, -10, -36.5, 1 },
      flat(ridge.scaled_add(a, b, 0.5, 1, { b_zero = 100 })))
    -- 52.5 and 0.5 go to even
    assert.same({ 52, -5, -18, 0 }, flat(ridge.scaled_add(a, b, 0.5, 1, { b_zero = 100,
      dtype = 'i8', y_scale = 2 })))
    assert.same({ 20, 3, 215, 3 }, flat(ridge.scaled_add(a, nil, 0.5, nil, { dtype = 'u8',
      y_scale = 0.3, y_zero = 3, activation = 'relu' })))
    -- zero points of what comes in and of what goes out are three different ones
    assert.same({ 95, 38, 25, 43 }, flat(ridge.scaled_add(a, b, 0.5, 1, { a_zero = 4, b_zero = 2,
      dtype = 'i8', y_scale = 2, y_zero = -5 })))
    assert.same({ 110, 53, 40, 58 }, flat(ridge.scaled_add(a, b, 0.5, 1, { a_zero = 4, b_zero = 2,
      dtype = 'u8', y_scale = 2, y_zero = 10 })))
    replays('scaled_add', a, function() return ridge.scaled_add(a, b, 0.5, 1) end)
    says('scaled_add: b and b_scale come together', function()
      ridge.scaled_add(a, b, 0.5, nil)
    end)
  end)

  it('are pooled', function()
    local x = ridge.tensor({ -5, 3, 7, -128, 0, 1, 127, 2, 4 }, { dtype = 'i8' })
      :reshape(1, 1, 3, 3)
    assert.same({ 3, 7, 127, 4 }, flat(ridge.scaled_pool2d(x, 2, { stride = 1 })))
    -- -130 / 4 and 11 / 4; 0 / 4, 7 / 4
    assert.same({ -32, 3, 0, 2 }, flat(ridge.scaled_pool2d(x, 2, { stride = 1, average = true })))
    replays('scaled_pool2d', x, function() return ridge.scaled_pool2d(x, 3) end)
    says('scaled_pool2d: x is f32, wanted i8 or u8', function()
      ridge.scaled_pool2d(x:to 'f32', 2)
    end)
  end)
end)
