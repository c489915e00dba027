-- SPDX-License-Identifier: MIT
--- Counters of a profile as rows and as text, on counts that are told: which class an operation is
--- of, sums, order, what is said of those that are not there.

local counters = require 'ridge.profile.counters'

-- A thin space stands before units.
local function told(p) return (counters.told(p):gsub('\226\128\175', ' ')) end

describe('the class of an operation', function()
  -- By its calls, { calls, flops, shapes }.
  local function class(op, ...)
    local calls = { { op = 'other one', calls = 99, flops = 0, shapes = '' } }
    for i, each in ipairs { ... } do
      calls[i + 1] = { op = op, calls = each[1], flops = each[2], shapes = each[3] }
    end
    return counters.classes({ calls = calls,
      counters = { operations = { { op = op, calls = 1 } } } })[1].class
  end

  it('is by what it computes, reads and makes', function()
    assert.equal('products', class('matmul', { 1, 48, 'f32[2,3] f32[3,4] -> f32[2,4]' }))
    assert.equal('copies and fills', class('copy', { 1, 0, 'f32[6] -> f32[6]' }))
    assert.equal('elementwise', class('exp', { 1, 6, 'f32[6] -> f32[6]' }))
    assert.equal('elementwise', class('exp', { 1, 6, 'f32[2,3] f32[] -> f32[3,2]' }))
    assert.equal('elementwise', class('add', { 1, 6, 'f32[2,1] f32[1,3] -> f32[2,3]' }))
    assert.equal('sums and losses', class('sum', { 1, 6, 'f32[2,3] -> f32[5]' }))
    -- by the largest of them
    assert.equal('sums and losses', class('loss', { 1, 6, 'f32[1] f32[2,3] f32[2] -> f32[2]' }))
    assert.equal('elementwise', class('norm', { 1, 6, 'f32[2,3] -> f32[2] f32[2,3]' }))
    assert.equal('other', class('step', { 1, 6, 'f32[6] f32[6]' })) -- makes nothing that is told
    assert.equal('other', class('step'))                            -- nobody saw it
    for _, shapes in ipairs { '', '(too many shapes)' } do -- which the core did not keep
      for _, op in ipairs { 'matmul', 'attention', 'attention_dropout_back', 'scaled_linear',
        'scaled_conv2d', 'sketched_linear_seed' } do
        assert.equal('products', class(op, { 1, 48, shapes }))
      end
      assert.equal('other', class('exp', { 1, 48, shapes }))
    end
  end)

  it('is that of the most calls, the first of as many', function()
    local sum, exp = 'f32[6] -> f32[1]', 'f32[6] -> f32[6]'
    assert.equal('sums and losses', class('x', { 2, 6, sum }, { 1, 6, exp }))
    assert.equal('elementwise', class('x', { 1, 6, sum }, { 2, 6, exp }))
    assert.equal('sums and losses', class('x', { 2, 6, sum }, { 2, 6, exp }))
  end)
end)

describe('classes', function()
  it('are sums of their operations, the most calls first, then by name', function()
    local copy, sum, exp = 'f32[2] -> f32[2]', 'f32[2] -> f32[]', 'f32[2] -> f32[2]'
    local p = { calls = { { op = 'a', calls = 1, flops = 2, shapes = sum },
      { op = 'b', calls = 1, flops = 2, shapes = exp }, { op = 'c', calls = 1, flops = 2,
        shapes = exp }, { op = 'd', calls = 1, flops = 0, shapes = copy } },
      counters = { operations = { { op = 'a', calls = 5, cycles = 7 },
        { op = 'b', calls = 2, cycles = 10 }, { op = 'c', calls = 3, cycles = 20, migrations = 1 },
        { op = 'd', calls = 1 } } } }
    assert.same({ { class = 'elementwise', ops = 2, calls = 5, cycles = 30, migrations = 1 },
      { class = 'sums and losses', ops = 1, calls = 5, cycles = 7 },
      { class = 'copies and fills', ops = 1, calls = 1 } }, counters.classes(p))
    assert.equal('elementwise', p.counters.operations[3].class)
    table.sort(p.counters.operations, function(a, b) return a.op > b.op end)
    assert.equal('elementwise', counters.classes(p)[1].class) -- in whichever order they come
  end)
end)

describe('counters as text', function()
  it('have what was counted, and how much of the time', function()
    assert.equal('counter       count\ncycles          1 k  counted 50 % of the time\n'
      .. 'instructions  2.5 k\n2.50 instructions a cycle\n(cache_misses, cupti: unavailable: why)\n'
      .. '(migrations: unavailable: no)',
      (told { counters = { cycles = 1000, instructions = 2500, ipc = 2.5,
        shares = { cycles = 0.5, instructions = 0.999 } },
        unavailable = { cache_misses = 'why', migrations = 'no', cupti = 'why' } }
        :gsub(' +\n', '\n')))
    local text = told { counters = { cycles = 1, shares = { cycles = 0.998 } }, unavailable = {} }
    assert.matches('counted 100 % of the time', text, 1, true)
  end)

  it('have classes beside those that there are', function()
    local classes = { { class = 'products', calls = 3, ops = 1, cycles = 1000, page_faults = 4 },
      { class = 'elementwise', calls = 2, ops = 1, cycles = 20, page_faults = 0 } }
    local text = told({ counters = { cycles = 1500, page_faults = 4, classes = classes,
      shares = { cycles = 1, page_faults = 1 } }, unavailable = {} }):gsub(' +\n', '\n')
    assert.equal('counter      count\ncycles       1.5 k\npage_faults      4\n'
      .. 'class of operation  calls  cycles  page_faults\n'
      .. 'products                3     1 k            4\n'
      .. 'elementwise             2      20            0', (text:gsub(' +$', '')))
    -- of none there is nothing to put beside them
    assert.equal('(cupti: unavailable: no GPU)', told { counters = { classes = classes,
      shares = {} }, unavailable = { cupti = 'no GPU' } })
  end)
end)
