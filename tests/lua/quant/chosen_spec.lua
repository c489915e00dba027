-- SPDX-License-Identifier: MIT
-- What quantization takes and leaves: layers that are used twice, padding, steps that save less,
-- searches of another net.
local ridge = require 'ridge'
local accuracy = require 'ridge.quant.accuracy'
local fold = require 'ridge.quant.fold'
local journal = require 'ridge.quant.journal'
local pool = require 'ridge.quant.pool'
local report = require 'ridge.quant.report'
local nn = ridge.nn

describe('folding', function()
  it('leaves a normalisation that is used twice', function()
    local norm = nn.BatchNorm(4)
    norm.running_mean:copy_(ridge.tensor { 1, 2, 3, 4 })
    norm.running_var:copy_(ridge.tensor { 4, 3, 2, 1 })
    local net = nn.Sequential(nn.Linear(4, 4, { seed = 1 }), norm, nn.Linear(4, 4, { seed = 2 }),
      nn.ReLU(), norm):eval()
    local x = ridge.randn(5, 4, { generator = ridge.generator(3) })
    local before = net(x):tolist()
    local notes = fold.fold(net)
    assert.same(before, net(x):tolist())
    assert.equal(norm, net[2])
    assert.equal('relu', net[3].activation)
    assert.matches('%(nn.BatchNorm%) stays f32', table.concat(notes, ' '))
  end)
end)

describe('pooling of bytes', function()
  it('is of windows without padding on any side', function()
    local function fits(low, high, axis)
      local from = nn.MaxPool2d(2)
      from.options.pad_low[axis], from.options.pad_high[axis] = low, high
      return pool.MaxPool2d.fits and pool.MaxPool2d.fits(from) or pool.fits(from)
    end
    for axis = 0, 1 do
      assert.is_true(fits(0, 0, axis))
      assert.is_false(fits(1, 0, axis))
      assert.is_false(fits(0, 1, axis))
    end
  end)
end)

describe('a search', function()
  it('never goes back to what saves less of a layer', function()
    local net = nn.Sequential(nn.Linear(32, 8, { seed = 1 })):eval()
    local x = ridge.randn(40, 32, { generator = ridge.generator(4) })
    local was = accuracy.pair
    -- two bits do no harm alone, and eight do some
    accuracy.pair = function(a, b, ...)
      local found = was(a, b, ...)
      found.kl = b[1].bits == 2 and 0 or 1
      return found
    end
    local ok, q, found = pcall(ridge.quant.search, net, { max_drop = 1, kinds = { 'w8', 'w2' },
      validate = ridge.data.Loader({ x, net(x):argmax(2) }, { batch = 40 }), rows = false })
    accuracy.pair = was
    assert.is_true(ok, tostring(q))
    assert.equal('w2', report.report(q).layers[1].kind)
    assert.equal(1, #found.points)
  end)

  it('is of one net and one set of rows, by what they hold', function()
    local function net(seed) return nn.Sequential(nn.Linear(4, 4, { seed = seed })):eval() end
    local function rows(seed)
      return ridge.data.Loader({ ridge.randn(6, 4, { generator = ridge.generator(seed) }) },
        { batch = 3, shuffle = false })
    end
    assert.equal(journal.of_net(net(1)), journal.of_net(net(1)))
    assert.are_not.equal(journal.of_net(net(1)), journal.of_net(net(2)))
    assert.equal(journal.of_rows(rows(1)), journal.of_rows(rows(1)))
    assert.are_not.equal(journal.of_rows(rows(1)), journal.of_rows(rows(2)))
  end)
end)
