-- SPDX-License-Identifier: MIT

local roof = require 'ridge.measure.roof'

describe('the roof', function()
  local MACHINE = { l1d = 1000, l2 = 10000, l3 = 100000 }
  local CEILINGS = {
    ['fma.f32'] = { value = 1e11, ci_hi = 2e11 }, ['amx.bf16'] = { value = 1.2e12 },
    ['bw.l1'] = { value = 4e11 }, ['bw.l2'] = { value = 2e11 }, ['bw.dram'] = { value = 1e10 },
  }

  local function least(cost, ceilings) return roof.least(cost, ceilings or CEILINGS, MACHINE) end

  it('is arithmetic where that takes longer', function()
    assert.same({ 10, 'compute' }, { least { flops = 1000, bytes = 100, dtype = 'f32' } })
  end)

  it('is each byte from the fastest level that can hold it, else', function()
    assert.same({ 2, 'L1' }, { least { flops = 100, bytes = 800, dtype = 'f32' } })
    -- a thousand bytes lie in L1
    assert.same({ 2.5 + 35, 'L2' }, { least { flops = 100, bytes = 8000, dtype = 'f32' } })
    -- the last level was not measured: memory it is
    assert.same({ 2.5 + 45 + 1000, 'DRAM' }, { least { flops = 100, bytes = 20000,
      dtype = 'f32' } })
  end)

  it('names the outer one of two levels that take as long', function()
    local even = { ['fma.f32'] = { value = 1e15 }, ['bw.l1'] = { value = 1e11 },
      ['bw.l2'] = { value = 1e11 } }
    assert.same({ 20, 'L2' }, { least({ flops = 1, bytes = 2000, dtype = 'f32' }, even) })
  end)

  it('counts private caches once for each thread', function()
    local two = { l1d = 1000, l2 = 10000, l3 = 100000, threads = 2 }
    assert.same({ 5 + 90, 'L2' }, { roof.least({ flops = 100, bytes = 20000, dtype = 'f32' },
      CEILINGS, two) })
  end)

  it('is that of f32 where the machine has no units of the type', function()
    assert.equal(10, roof.compute_ns({ flops = 1000, dtype = 'bf16' },
      { ['fma.f32'] = { value = 1e11 } }))
    assert.near(1000 / 1200, roof.compute_ns({ flops = 1000, dtype = 'bf16' }, CEILINGS), 1e-9)
  end)

  it('of a device is its best product in the type that computes', function()
    local device = { ['product.f32'] = { value = 5e13 }, ['product.tf32'] = { value = 4e14 },
                     ['product.bf16'] = { value = 8e14 }, ['product.f16'] = { value = 7e14 } }
    local function ns(dtype, tf32)
      return roof.compute_ns({ flops = 5.6e15, dtype = dtype, tf32 = tf32 }, device) / 1e9
    end
    assert.near(112, ns 'f32', 1e-9)
    assert.near(14, ns('f32', true), 1e-9)
    assert.near(7, ns 'bf16', 1e-9)
    assert.near(8, ns 'f16', 1e-9)
    assert.is_nil(roof.compute_ns({ flops = 1, dtype = 'f64' }, device))
    -- tf32 is a matter of f32 alone
    assert.near(7, ns('bf16', true), 1e-9)
  end)

  it('lets AMX multiply by fixed signs beside the units of f32', function()
    assert.equal(5, (least { flops = 1000, sign_flops = 500, dtype = 'f32' }))
    -- three products of bf16 for one of f32
    assert.near(7.5, (least { flops = 3000, sign_flops = 3000, dtype = 'f32' }), 1e-9)
    assert.equal(10, roof.compute_ns({ flops = 1000, sign_flops = 500, dtype = 'f32' },
      { ['fma.f32'] = { value = 1e11 } }))
  end)

  it('is held against the upper ends of the intervals, for the flag', function()
    assert.equal(0.5, roof.share({ flops = 1000, dtype = 'f32' }, 10, CEILINGS))
    assert.equal(2, roof.share({ bytes = 8000 }, 10, CEILINGS))
    assert.near(0.01, roof.share({ bytes = 40 }, 10, CEILINGS), 1e-12) -- a tenth of a nanosecond
    assert.is_nil(roof.share({ flops = 1000, dtype = 'i8' }, 10, {}))
  end)

  it('is unknown where nothing was measured', function()
    assert.is_nil(least({ flops = 1000, dtype = 'f32' }, {}))
    assert.is_nil(least { bytes = 10 })
  end)
end)
