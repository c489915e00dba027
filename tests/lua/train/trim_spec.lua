-- SPDX-License-Identifier: MIT
-- Memory that a training gives back every so many batches (F4, F5).

local ridge = require 'ridge'
local memory = ridge.memory

-- Train one epoch of twelve batches; `during` is called with each.
local function trained(opts, during)
  ridge.seed(7)
  local net = ridge.nn.Linear(4, 3, { seed = 1 })
  local lines = {}
  opts.lr, opts.say, opts.log_every = 0.1, function(line) lines[#lines + 1] = line end, 0
  local trainer = ridge.Trainer(net, opts)
  local loader = ridge.data.Loader({ ridge.randn(24, 4), ridge.randint(0, 3, 24) }, { batch = 2 })
  local each = loader.each
  function loader:each()
    local step = each(self)
    return function(...)
      during()
      return step(...)
    end
  end
  local history = trainer:fit(loader, { epochs = 1 })
  return history[1], lines, net
end

-- Cached memory at the beginning of each batch, of which each leaves some.
local function cached(opts)
  local list = {}
  memory.trim()
  local row, lines, net = trained(opts, function()
    list[#list + 1] = memory.stats().cached
    ridge.empty(2 ^ 20 + 2 ^ 18 * #list):release()
  end)
  return list, row, lines, net
end

describe('a trainer with trim_every', function()
  it('gives back what is cached, so often, and says how much', function()
    local list, row, lines = cached { trim_every = 4 }
    for i, bytes in ipairs(list) do
      -- batches 5, 9 and 13, the end, begin behind a trim
      assert.equal(i % 4 == 1, bytes < 4 * 2 ^ 20, i .. ': ' .. bytes)
    end
    assert.is_true(row.trimmed_bytes > 3 * 16 * 2 ^ 20, row.trimmed_bytes)
    assert.matches('  epoch 1/1 .*, trimmed %d+%.%d MB$', '  ' .. lines[1])
  end)

  it('computes the same bits', function()
    local _, _, _, one = cached { trim_every = 1 }
    local _, row, lines, other = cached {}
    assert.is_true(one.weight:equal(other.weight))
    assert.is_nil(row.trimmed_bytes)
    assert.is_nil(lines[1]:find 'trimmed')
  end)

  it('takes a whole number from 1', function()
    for _, bad in ipairs { 0, -1, 1.5, 0 / 0, 'x' } do
      local ok, err = pcall(cached, { trim_every = bad })
      assert.is_false(ok)
      assert.matches('option trim_every is ', tostring(err))
    end
  end)
end)
