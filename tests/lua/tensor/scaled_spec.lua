-- SPDX-License-Identifier: MIT
-- ridge.scaled_linear as it is typed: scales as numbers and tensors, options, and what is said of
-- arguments that do not fit. The numbers themselves: tests/op/scaled_spec.lua.

local ridge = require 'ridge'

local function failure(f)
  local ok, err = pcall(f)
  assert.is_false(ok)
  return err
end

describe('ridge.scaled_linear', function()
  local x = ridge.tensor({ { 1, -2, 3 }, { 0, 127, -128 } }, { dtype = 'i8' })
  local w = ridge.tensor({ { 1, 1, 1 }, { 2, 0, -1 } }, { dtype = 'i8' })

  it('takes scales as numbers and as tensors', function()
    assert.same({ { 1, -0.5 }, { -0.5, 64 } }, ridge.scaled_linear(x, w, 0.5, 1):tolist())
    assert.same({ { 1, -0.5 }, { -0.5, 64 } },
      ridge.scaled_linear(x, w, ridge.full(0.5, 1), 1):tolist())
    local rows, columns = ridge.tensor { 2, 0.5 }, ridge.tensor { 1, -1 }
    assert.same({ { 4, 2 }, { -0.5, -64 } }, ridge.scaled_linear(x, w, rows, columns):tolist())
    assert.same({ { 4, 2 }, { -0.5, -64 } },
      ridge.scaled_linear(x, w, rows:reshape(2, 1), columns:reshape(2, 1)):tolist())
  end)

  it('has a bias, an activation and a type of the result', function()
    local y = ridge.scaled_linear(x, w, 1, 1, { bias = ridge.tensor { -3, 1 }, activation = 'relu',
      dtype = 'bf16' })
    assert.equal('bf16', y.dtype)
    assert.same({ { 0, 0 }, { 0, 129 } }, y:tolist())
  end)

  it('is a step of a plan, numbers and all', function()
    local plan = ridge.capture(function() return ridge.scaled_linear(x, w, 0.5, 2) end)
    plan:run(2)
    assert.same({ { 2, -1 }, { -1, 128 } }, plan.results[1]:tolist())
  end)

  it('says what does not fit', function()
    for pattern, f in pairs {
      ['w is f32, wanted i8'] = function() ridge.scaled_linear(x, w:to 'f32', 1, 1) end,
      ['x_scale is f32%[3%], wanted one number or %[2%]'] = function()
        ridge.scaled_linear(x, w, ridge.ones(3), 1)
      end,
      ["a tensor is expected, got '1'"] = function() ridge.scaled_linear(x, w, '1', 1) end,
      ["unknown option 'act'"] = function() ridge.scaled_linear(x, w, 1, 1, { act = 'relu' }) end,
    } do
      assert.matches(pattern, failure(f).message)
    end
  end)
end)
