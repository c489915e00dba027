-- SPDX-License-Identifier: MIT
-- A net beside a quantized one: answers by pairs, bytes that are held, shares of the work, and the
-- statistics of pairs.
local ridge = require 'ridge'
local accuracy = require 'ridge.quant.accuracy'
local held = require 'ridge.quant.held'
local mcnemar = require 'ridge.measure.mcnemar'
local proportion = require 'ridge.measure.proportion'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

describe('McNemar', function()
  it('is the exact test', function()
    assert.near(22 / 1024, mcnemar.exact(1, 9), 1e-12)
    assert.near(22 / 1024, mcnemar.exact(9, 1), 1e-12)
    assert.equal(1, mcnemar.exact(0, 0))
    assert.equal(1, mcnemar.exact(3, 3))
    assert.near(2 * 0.5 ^ 12, mcnemar.exact(0, 12), 1e-12)
    -- by whole numbers of any size; many rows take no time
    assert.near(0.011488253770871206, mcnemar.exact(3000, 3200), 1e-10)
    local begin = os.clock()
    assert.is_true(mcnemar.exact(200000, 100000) < 1e-300)
    assert.is_true(os.clock() - begin < 0.5)
  end)

  it('has an interval that covers, and is narrower the more both agree', function()
    local random = require('ridge.measure.random').new(5)
    local n, inside, width, apart = 150, 0, 0, 0
    for _ = 1, 600 do
      local both, a, b, neither = 0, 0, 0, 0
      for _ = 1, n do
        local u = random:uniform()
        if u < 0.85 then both = both + 1
        elseif u < 0.88 then a = a + 1
        elseif u < 0.93 then b = b + 1
        else neither = neither + 1 end
      end
      local lo, hi = mcnemar.difference(both, a, b, neither)
      if lo <= 0.02 and hi >= 0.02 then inside = inside + 1 end
      local d_lo, d_hi = proportion.difference(both + b, n, both + a, n)
      width, apart = width + hi - lo, apart + d_hi - d_lo
    end
    assert.is_true(inside / 600 > 0.93 and inside / 600 < 0.995, inside / 600)
    assert.is_true(width < 0.9 * apart)
    local lo, hi = mcnemar.difference(36, 2, 12, 0) -- Newcombe's own: 0.0569 to 0.3404
    assert.near(0.0569296, lo, 1e-6)
    assert.near(0.3404276, hi, 1e-6)
    lo, hi = mcnemar.difference(90, 2, 4, 4) -- by its formulas, corrected for continuity
    assert.near(-0.0378471393, lo, 1e-9)
    assert.near(0.0818197630, hi, 1e-9)
    lo, hi = mcnemar.difference(90, 4, 2, 4)
    local lo2, hi2 = mcnemar.difference(90, 2, 4, 4)
    assert.near(lo, -hi2, 1e-12)
    assert.near(hi, -lo2, 1e-12)
  end)
end)

describe('accuracy of two nets', function()
  it('counts pairs, changes and the divergence from the first', function()
    local first = ridge.tensor { { 2, 0 }, { 2, 0 }, { 0, 2 }, { 0, 2 } }
    local second = ridge.tensor { { 2, 0 }, { 0, 2 }, { 2, 0 }, { 0, 1 } }
    local x = ridge.tensor { { 0 }, { 1 }, { 2 }, { 3 } }
    local labels = ridge.tensor({ 0, 0, 0, 1 }, { dtype = 'i64' })
    local function of(y) return function(rows)
      return rows:size(1) == 4 and y or y:narrow(1, rows:tolist()[1][1] + 1, rows:size(1))
    end end
    local want = 0
    for i = 1, 4 do
      local a, b = first:tolist()[i], second:tolist()[i]
      local za, zb = math.exp(a[1]) + math.exp(a[2]), math.exp(b[1]) + math.exp(b[2])
      for c = 1, 2 do
        local p, q = math.exp(a[c]) / za, math.exp(b[c]) / zb
        want = want + p * math.log(p / q) / 4
      end
    end
    for _, batch in ipairs { 4, 2, 3 } do
      local loader = ridge.data.Loader({ x, labels }, { batch = batch, shuffle = false })
      local r = accuracy.pair(of(first), of(second), loader, 'test')
      assert.same({ 4, 0.75, 0.75, 2, 1, 1 }, { r.n, r.original.share, r.quantized.share, r.changed,
        r.only_original, r.only_quantized })
      assert.near(want, r.kl, 1e-12)
    end
  end)
end)

describe('answers', function()
  local function pair(labels, a, b)
    local x = ridge.ones(labels:size(1), 1)
    return accuracy.pair(function() return a end, function() return b or a end,
      { each = function()
        local given
        return function()
          if given then return nil end
          given = true
          return x, labels
        end
      end }, 'test')
  end

  it('are none where a row has nan in it', function()
    local a = ridge.tensor { { 1, 0 }, { 1, 0 }, { 0, 1 } }
    local b = ridge.tensor { { 0 / 0, 0 }, { 1, 0 / 0 }, { 0, 1 } }
    local r = pair(ridge.zeros(3), a, b)
    assert.same({ 3, 2, 0, 2 }, { r.n, r.only_original, r.only_quantized, r.changed })
    assert.equal(1 / 3, pair(ridge.ones(3), a, b).quantized.share)
  end)

  it('are of the classes that labels name', function()
    local y = ridge.tensor { { 1, 0, 2 }, { 1, 0, 2 } }
    for _, bad in ipairs { { 0, 3 }, { -1, 0 }, { 0.5, 0 }, { 0 / 0, 1 }, { 1, 0 / 0 } } do
      assert.matches('test: labels are whole numbers from 0 to 2', failure(pair,
        ridge.tensor(bad), y))
    end
    assert.equal(0.5, pair(ridge.tensor { 2, 0 }, y).original.share)
  end)
end)

describe('accuracy of masked classes', function()
  it('adds nothing for what never comes', function()
    local inf = math.huge
    local a, b = ridge.tensor { { 1, 0, -inf } }, ridge.tensor { { 0, 0, -inf } }
    local function pair(p, q)
      local loader = ridge.data.Loader({ ridge.ones(1, 1), ridge.zeros(1) }, { batch = 1 })
      return accuracy.pair(function() return p end, function() return q end, loader, 'test').kl
    end
    local share = math.exp(1) / (1 + math.exp(1))
    assert.near(share * math.log(2 * share) + (1 - share) * math.log(2 * (1 - share)), pair(a, b),
      1e-12)
    assert.equal(inf, pair(ridge.zeros(1, 3), b))
    assert.is_true(pair(a, ridge.zeros(1, 3)) < inf)
  end)
end)

describe('quant.compare', function()
  local net = nn.Sequential(nn.Linear(256, 512, { seed = 1, activation = 'relu' }),
    nn.Linear(512, 4, { seed = 2 })):eval()
  local x, labels = ridge.randn(64, 256), ridge.randint(0, 4, 64)
  local q = ridge.quant.dynamic(net, { rows = false, skip = { '2' } })
  local test = ridge.data.Loader({ x, labels }, { batch = 32, shuffle = false })
  local r = ridge.quant.compare(net, q, { shape = { 64, 256 }, iterations = 20, test = test })

  it('measures time by pairs and says it with an interval', function()
    assert.is_true(r.speedup_lo <= r.speedup and r.speedup <= r.speedup_hi)
    assert.near(r.speedup, 1 / r.comparison.ratio, 1e-12)
    assert.matches('^Speedup: %d+%.%d%dx %[%d+%.%d%d, %d+%.%d%d%]\n', tostring(r))
    assert.equal('ABBA', r.comparison.design)
    assert.equal(64, r.accuracy.n)
    assert.is_function(r.print)
  end)

  it('counts what is held: scales, biases and packed copies', function()
    assert.equal(256 * 512 + 4 * 512 + 4 * 512 + 4 * (512 * 4 + 4), r.bytes.quantized.stored)
    assert.equal(net:num_bytes(), r.bytes.original.stored)
    assert.is_true(r.bytes.quantized.scratch > 0)
    assert.equal((r.bytes.quantized.stored + r.bytes.quantized.packed) / 2 ^ 20,
      r.bytes.quantized.mb)
    net(x)
    assert.equal(net[1]:facts().packed_bytes + net[2]:facts().packed_bytes,
      held.bytes(net).packed)
  end)

  it('says which share of the work is in whole numbers, and what was left out', function()
    assert.near(512 * 256 / (512 * 256 + 512 * 4), r.coverage.share, 1e-9)
    assert.equal(2, r.coverage.conversions)
    assert.same({ '2' }, { r.coverage.left[1].name })
    assert.matches('1 of 2 layers; 2 conversions left\nKernels: scaled_linear: [%w_ ,.:-]+\n'
      .. '  2 %(nn.Linear%) is f32: named in skip', tostring(r))
    assert.equal(1, #r.coverage.paths)
    assert.matches('exact McNemar p', tostring(r))
  end)

  it('names what does not fit', function()
    assert.matches('option shape is missing', failure(ridge.quant.compare, net, q, {}))
    assert.matches('not both', failure(ridge.quant.compare, net, q, { shape = { 1, 256 },
      input = x }))
    assert.matches('second is to be a quantized net', failure(ridge.quant.compare, net, net,
      { shape = { 1, 256 } }))
    local three = ridge.data.Loader({ x }, { batch = 32 })
    assert.matches('a label for each of 32 rows', failure(ridge.quant.compare, net, q,
      { shape = { 1, 256 }, iterations = 1, test = three }))
    assert.matches('test is a loader', failure(ridge.quant.compare, net, q,
      { shape = { 1, 256 }, iterations = 1, test = { 1 } }))
  end)
end)
