-- SPDX-License-Identifier: MIT
-- ridge.quantize, ridge.dequantize and ridge.quantize_rows as they are typed: ties, ends of the
-- range, what is no number; scales for all, rows, channels and groups; plans; what is said of
-- mistakes.

local ridge = require 'ridge'

local function flat(x) return x:reshape(x.count):tolist() end

local function says(text, f)
  local ok, err = pcall(f)
  assert.is_false(ok)
  assert.matches(text, tostring(err), 1, true)
  assert.matches('quantize_spec.lua:', tostring(err), 1, true)
end

describe('ridge.quantize', function()
  local INF, NAN = math.huge, 0 / 0

  it('rounds ties to even and saturates; nan is the zero point', function()
    local x = ridge.tensor { 0.5, 1.5, -0.5, -2.5, 126.5, 127.5, 300, -300, INF, -INF, NAN, -0 }
    assert.same({ 0, 2, 0, -2, 126, 127, 127, -128, 127, -128, 0, 0 }, flat(ridge.quantize(x, 1)))
    assert.same({ 3, 5, 3, 1, 129, 131, 255, 0, 255, 0, 3, 3 },
      flat(ridge.quantize(x, 1, 3, { type = 'u8' })))
    assert.same({ -128, -126, -128, -128, -2, 0, 127, -128, 127, -128, -128, -128 },
      flat(ridge.quantize(x, 1, -128)))
  end)

  it('takes scales for all, rows, channels and groups', function()
    local x = ridge.tensor { { 1, 2, 3, 4 }, { 8, 16, 24, 32 } }
    assert.same({ 2, 4, 6, 8, 16, 32, 48, 64 }, flat(ridge.quantize(x, 0.5)))
    local rows = ridge.tensor { 1, 8 }
    assert.same({ 1, 2, 3, 4, 1, 2, 3, 4 }, flat(ridge.quantize(x, rows)))
    assert.same({ 1, 2, 3, 4, 1, 2, 3, 4 }, flat(ridge.quantize(x, rows:reshape(2, 1))))
    assert.same({ 1, 2, 3, 4, 1, 2, 3, 4 }, flat(ridge.quantize(x, rows, nil, { axis = 1 })))
    assert.same({ 1, 1, 1, 1, 8, 8, 8, 8 },
      flat(ridge.quantize(x, ridge.tensor { 1, 2, 3, 4 }, nil, { axis = -1 })))
    local groups = ridge.tensor { { 1, 0.5 }, { 8, 4 } }
    assert.same({ 1, 2, 6, 8, 1, 2, 6, 8 }, flat(ridge.quantize(x, groups, nil, { group = 2 })))
    assert.same({ 1, 2, 3, 8, 1, 2, 3, 8 }, flat(ridge.quantize(x, groups, nil, { group = 3 })))
    assert.same({ 1, 2, 6, 8, 8, 16, 48, 64 }, flat(ridge.quantize(x,
      ridge.tensor { { 1, 1, 0.5, 0.5 } }, nil, { group = 2, axis = 1 })))
    assert.same({ 7 }, ridge.quantize(ridge.tensor { 3.5 }:reshape {}, 0.5):reshape(1):tolist())
  end)

  it('has zero points beside scales, and dequantize takes both back', function()
    local x = ridge.tensor { { -1, 0, 1, 2 }, { -8, 0, 8, 16 } }
    local scale, zero = ridge.tensor { 0.5, 4 }, ridge.tensor({ 10, 200 }, { dtype = 'u8' })
    local q = ridge.quantize(x, scale, zero, { type = 'u8' })
    assert.same({ 8, 10, 12, 14, 198, 200, 202, 204 }, flat(q))
    assert.same(flat(x), flat(ridge.dequantize(q, scale, zero)))
    assert.equal('bf16', ridge.dequantize(q, scale, zero, { type = 'bf16' }).dtype)
    assert.same({ 3, -6 }, flat(ridge.dequantize(ridge.tensor({ 6, -12 }, { dtype = 'i32' }), 0.5)))
  end)

  it('makes rows symmetric, and what is no number stays with its row', function()
    local x = ridge.tensor { { 127, -254, 1, 63 }, { 0, 0, -0, 0 }, { 1, NAN, 2, 3 },
      { 1, -INF, 2, 3 }, { 1e-45, -1e-45, 0, 0 } }
    local q, scale = ridge.quantize_rows(x)
    assert.same({ 64, -127, 0, 32 }, q[1]:tolist())
    assert.same({ 5, 1 }, scale.shape)
    local s = flat(scale)
    assert.same({ 2, 0 }, { s[1], s[2] })
    assert.is_true(s[3] ~= s[3] and s[4] == INF)
    assert.same({ 0, 0, 0, 0 }, q[2]:tolist())
    assert.same({ 0, 0, 0, 0 }, q[3]:tolist())
    assert.is_true(q:to('i32'):min():item() >= -127)
    local y = ridge.scaled_linear(x, ridge.ones(1, 4, { dtype = 'i8' }), nil, 1)
    assert.same({ -62, 0 }, { y[1]:item(), y[2]:item() })
    assert.is_true(y[3]:item() ~= y[3]:item() and y[4]:item() ~= y[4]:item())
  end)

  it('is replayed in plans, and shows itself in graphs', function()
    local x, scale = ridge.tensor { { 1, 2 }, { 3, 4 } }, ridge.tensor { 0.5, 1 }
    local function f()
      local q, s = ridge.quantize_rows(x)
      return ridge.dequantize(ridge.quantize(x, scale, nil, { axis = 2 }), 1), q:to 'f32' * s
    end
    local plan = ridge.capture(f)
    x:copy_(x * 2)
    plan()
    local a, b = f()
    local p, r = plan()
    assert.same(flat(a), flat(p))
    assert.same(flat(b), flat(r))
    local text = tostring(ridge.graph(f))
    assert.matches('quantize_rows', text)
    assert.matches('dequantize', text)
  end)

  it('says what does not fit', function()
    local x = ridge.ones(2, 4)
    says('quantize: scale is f32[3], wanted one number or [2,1]', function()
      ridge.quantize(x, ridge.ones(3))
    end)
    says('quantize: scale is f32[2,3], wanted one number or [2,2]', function()
      ridge.quantize(x, ridge.ones(2, 3), nil, { group = 2 })
    end)
    says('quantize: there is no axis 3 in', function() ridge.quantize(x, 1, nil, { axis = 3 }) end)
    says('quantize: a zero of 128 beside i8', function() ridge.quantize(x, 1, 128) end)
    says('dequantize: a zero of 1 beside i32', function()
      ridge.dequantize(x:to 'i32', 1, 1)
    end)
    says("unknown option 'dtype'", function() ridge.quantize(x, 1, nil, { dtype = 'u8' }) end)
    says('quantize: zero is i8, wanted u8, the type it stands in', function()
      ridge.quantize(x, 1, ridge.ones(1, { dtype = 'i8' }), { type = 'u8' })
    end)
    says('quantize_rows: x is one number and has no rows', function()
      ridge.quantize_rows(ridge.ones(1):reshape {})
    end)
    says('dequantize: has no gradient', function()
      local scale = ridge.ones(1):requires_grad_()
      ridge.dequantize(x:to 'i8', scale):sum():backward()
    end)
  end)
end)
