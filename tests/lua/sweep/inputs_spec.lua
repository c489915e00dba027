-- SPDX-License-Identifier: MIT
-- The checksum by which a pass sees that a setup made other data than the one before.

local inputs = require 'ridge.sweep.inputs'
local ridge = require 'ridge'
local simulated = dofile 'tests/lua/simulated.lua'

describe('the checksum of what a setup made', function()
  local function sees_values(device)
    local function sum(value)
      return inputs.checksum { net = { x = ridge.full(value, 2, 3, 5, { device = device }) } }
    end
    assert.equal(sum(1), sum(1))
    assert.not_equal(sum(1), sum(2))
  end

  it('is of the values, the shape and the type', function()
    sees_values 'cpu'
    local x = ridge.ones(2, 3)
    assert.not_equal(inputs.checksum { x }, inputs.checksum { ridge.ones(3, 2) })
    assert.not_equal(inputs.checksum { x }, inputs.checksum { x:to 'f64' })
    assert.not_equal(inputs.checksum { x }, inputs.checksum { y = x })
  end)

  it('is of the values on a device too', function()
    if not simulated.open() then return pending 'no nvcc: the simulated GPU was not built' end
    sees_values 'sim:0'
  end)

  it('is of numbers that are not finite too', function()
    local seen = {}
    for _, value in ipairs { 1 / 0, -1 / 0, 0 / 0, 0 } do
      local sum = inputs.checksum { ridge.tensor { 1, value } }
      assert.is_nil(seen[sum], value)
      seen[sum] = true
    end
    assert.is_true(seen[inputs.checksum { ridge.tensor { 1, -(0 / 0) } }])
  end)

  it('takes whatever a context holds: scalars, no elements, a released tensor', function()
    local gone = ridge.ones(2)
    gone:release()
    assert.is_string(inputs.checksum { ridge.ones(), ridge.ones(0, 3), gone,
      ridge.ones(2, 2):requires_grad_() })
    assert.is_nil(inputs.checksum { 1, 'x' })
    assert.is_nil(inputs.checksum(nil))
  end)
end)
