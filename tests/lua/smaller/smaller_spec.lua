-- SPDX-License-Identifier: MIT
-- A smaller net searched for: what is chosen and reported, what is not tried, how it ends.
local ridge = require 'ridge'
local ab = require 'ridge.measure.ab'
local accuracy = require 'ridge.quant.accuracy'
local claims_of = require 'ridge.smaller.claims'
local found_of = require 'ridge.smaller.found'
local held = require 'ridge.quant.held'
local versions = require 'ridge.smaller.versions'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function loader(x, y)
  return ridge.data.Loader({ x, y }, { batch = math.min(100, x:size(1)), shuffle = false })
end

local function inputs(n, seed) return ridge.randn(n, 32, { generator = ridge.generator(seed) }) end

-- The labels are the net's own answers: every change is a drop.
local net = nn.Sequential(nn.Linear(32, 64, { seed = 1 }), nn.ReLU(),
  nn.Linear(64, 4, { seed = 2 })):eval()
local function data(n, seed)
  local x = inputs(n, seed)
  return loader(x, net(x):argmax(2))
end
local validate, test = data(200, 3), data(100, 4)

local function with(more)
  local opts = { validate = validate, looks = 1, only = { 'quant' }, bits = { 'w4' } }
  for name, value in pairs(more or {}) do opts[name] = value or nil end
  return opts
end

local function stopping_after(n, f, ...)
  local before = ridge.stopping
  ridge.stopping = function()
    n = n - 1
    return n < 0
  end
  local ok, q, found = pcall(f, ...)
  ridge.stopping = before
  assert(ok, q)
  return q, found
end

describe('ridge.smaller', function()
  it('chooses the fewest bytes of what costs no more than is allowed, and tests it once', function()
    local read = 0
    local counted = { each = function()
      read = read + 1
      return test:each()
    end }
    local q, found = ridge.smaller(net, with { max_drop = 0.1, bits = { 'bf16', 'w4', 'w2' },
      test = counted })
    assert.same({ 'original', 'bf16', '4 bits', '2 bits' }, { found.points[1].net,
      found.points[2].net, found.points[3].net, found.points[4].net })
    local chosen
    for _, p in ipairs(found.points) do
      if p.drop <= 0.1 and (not chosen or p.mb < chosen.mb) then chosen = p end
    end
    assert.equal('4 bits', chosen.net) -- 2 bits cost more, bf16 holds more
    assert.is_true(found.points[4].drop > 0.1)
    assert.equal(chosen, found.chosen)
    local a = accuracy.pair(net, q, validate, 'x')
    assert.equal(-a.difference.share, chosen.drop)
    assert.equal(a.changed, chosen.changed)
    assert.equal(held.bytes(q).mb, chosen.mb)
    assert.is_true(chosen.speedup_lo <= chosen.speedup and chosen.speedup <= chosen.speedup_hi)
    assert.equal(2, read) -- whether it is the validation data, and at the end
    assert.same(accuracy.pair(net, q, test, 'x'), found.test)
    assert.matches('> +4 bits', tostring(found))
    assert.matches('On test, 100 rows: original 100.00 %%', tostring(found))
    assert.equal('pareto', found:plot().kind)
  end)

  it('says of which nets no time was gained, and why', function()
    local found = found_of.new { max_drop = 0.1 }
    local function add(bits, structure, lo, hi)
      table.insert(found.points, { net = found_of.name(structure, bits), bits = bits,
        structure = structure, drop = 0, drop_lo = 0, drop_hi = 0, changed = 0, n = 9, mb = 1,
        stored_mb = 1, ms = 1, speedup = lo, speedup_lo = lo, speedup_hi = hi, within = 'yes' })
    end
    add('f32', 'dense', 1, 1)
    add('bf16', 'dense', 0.5, 0.75)
    add('w4', 'dense', 0.5, 0.75)
    add('w3', 'dense', 0.5, 0.75)
    add('w2', 'dense', 0.5, 1.25)
    add('dynamic', 'dense', 0.5, 0.75)
    add('static', 'dense', 1.5, 1.75)
    for i = 1, 6 do add('w4', 'width 0.' .. i, 0.5, 0.75) end
    add('f32', 'element 50 %', 1, 1.25)
    table.insert(found.points, { net = 'x', bits = 'w4', structure = 'x', why = 'no' })
    found.rows = 1
    local slower = 'slower than the original with this input'
    local text = tostring(found)
    for _, line in ipairs { 'bf16: ' .. slower .. '\n', '4 bits; 3 bits; width 0.1, 4 bits; width '
      .. '0.2, 4 bits; width 0.3, 4 bits; width 0.4, 4 bits and 2 more: ' .. slower
      .. ': opening codes takes', '2 bits; element 50 %: no difference in speed was shown\n',
      'i8 dynamic: ' .. slower .. ': rounding what comes in' } do
      assert.truthy(text:find('\n' .. line, 1, true), line .. ' in ' .. text)
    end
    assert.is_nil(text:find('static: [sn]'))
    assert.is_nil(text:find('original: ', 1, true))
  end)

  it('leaves the net as it is where nothing is allowed', function()
    local x = inputs(8, 5)
    local before = net(x):tolist()
    local q, found = ridge.smaller(net, with { max_drop = 0, bits = { 'w2' } })
    assert.is_nil(found.chosen)
    assert.same(before, q(x):tolist())
    assert.same(before, net(x):tolist())
    assert.matches('nothing that is smaller costs at most 0 %%', tostring(found))
  end)

  it('does not combine what alone certainly costs too much', function()
    local tuned = 0
    local _, found = ridge.smaller(net, with { only = { 'quant', 'prune', 'shrink' }, max_drop =
      0.01, bits = { 'w2' }, widths = { 0.1 }, patterns = { 'block' }, sparsities = { 0.9 },
      train = function() tuned = tuned + 1 end })
    local names = {}
    for i, p in ipairs(found.points) do names[i] = p.net end
    assert.same({ 'original', '2 bits', 'width 0.1', 'block 90 %' }, names)
    assert.equal(4, found.left) -- each with 2 bits, and both together in both kinds
    assert.equal(1 + 3, tuned)
    assert.matches('4 nets were not tried', tostring(found))
  end)

  -- Each net holds so many megabytes as it is told to, the original first.
  local function holding(list, f, ...)
    local before, i = held.bytes, 0
    held.bytes = function()
      i = i + 1
      return { mb = list[i], stored = 1, packed = 0, scratch = 0 }
    end
    local ok, q, found = pcall(f, ...)
    held.bytes = before
    assert(ok, q)
    return q, found
  end

  it('takes what is smaller, by little steps too, and no other for its speed', function()
    local _, found = holding({ 1, 0.994, 0.988, 0.982 }, ridge.smaller, net, with { max_drop = 1,
      bits = { 'w8', 'w4', 'w2' } })
    assert.is_true(found.chosen.mb <= 1.01 * 0.982)
    local wide = nn.Sequential(nn.Linear(32, 512, { seed = 1 }), nn.ReLU(),
      nn.Linear(512, 4, { seed = 2 })):eval()
    _, found = holding({ 1, 1 }, ridge.smaller, wide, with { max_drop = 1, only = { 'shrink' },
      bits = false, widths = { 0.02 } })
    assert.is_true(found.points[2].speedup_lo > 1)
    assert.is_nil(found.chosen)
  end)

  it('takes the faster one of nets with as many bytes, where that is shown', function()
    local was, before = ab.ab, package.loaded['ridge.smaller']
    local function chosen(ratio, hi)
      local ratios, n = { 1, 0.9, 1, ratio }, 0
      ab.ab = function()
        n = n + 1
        local r = ratios[n]
        return { ratio = r, ci_lo = r - 0.05, ci_hi = n == 4 and hi or r + 0.05, a_ns = 1e3,
          b_ns = 1e3 * r, verdict = 'open' }
      end
      package.loaded['ridge.smaller'] = nil
      local ok, _, found = pcall(require('ridge.smaller').smaller, net, with { max_drop = 1,
        only = { 'quant', 'prune' }, patterns = { 'element' }, sparsities = { 0.5 } })
      ab.ab, package.loaded['ridge.smaller'] = was, before
      assert.is_true(ok, tostring(_))
      assert.equal(4, n)
      assert.equal(found.points[2].mb, found.points[4].mb)
      return found.chosen.net
    end
    assert.equal('element 50 %, 4 bits', chosen(0.5, 0.6))
    assert.equal('4 bits', chosen(0.8, 0.9)) -- its interval reaches into the other's
    assert.equal('4 bits', chosen(2, 2.1))
  end)

  it('counts as memory what is held, and as size what is stored', function()
    local rows = claims_of.rows { { structure = 'dense', bits = 'f32', mb = 8, stored_mb = 5 },
      { structure = 'dense', bits = 'dynamic', mb = 2, stored_mb = 2, speedup = 1, speedup_lo = 1,
        speedup_hi = 1, drop = 0, drop_lo = 0, drop_hi = 0 } }
    assert.same({ claim = 'i8 dynamic: 4 to 5 times less memory', found = '4.00',
      verdict = 'holds' }, rows[2])
    assert.same({ claim = 'i8 dynamic: 50 to 75 % less size', found = '60.0 %',
      verdict = 'holds' }, rows[3])
  end)

  it('has at its front what nothing beats in bytes, time and accuracy together', function()
    local found = found_of.new {}
    local function point(mb, drop, speedup)
      found.points[#found.points + 1] = { mb = mb, drop = drop, speedup = speedup }
    end
    point(4, 0, 1)
    point(4, 0, 2) -- beats the first one by its time alone,
    point(2, 0.1, 2)
    point(2, 0.2, 2) -- is beaten by its accuracy alone,
    point(3, 0.1, 2) -- by its bytes alone,
    point(2, 0.1, 2) -- by none of what is the same
    found.points[7] = { why = 'infeasible' }
    found:mark_front()
    local front = {}
    for i, p in ipairs(found.points) do front[i] = p.front end
    assert.same({ false, true, true, false, false, true, false }, front)
  end)

  it('tells shares apart that differ in the seventh digit', function()
    local a, b = { width = 0.5, pattern = 'block', sparsity = 0.3 },
      { width = 0.50000001, pattern = 'block', sparsity = 0.30000001 }
    assert.equal('width 0.5, block 30 %', versions.name(a))
    assert.equal('width 0.50000001, block 30.000001 %', versions.name(b))
  end)

  it('has controls, tuned as much, and claims', function()
    local epochs = {}
    local q, found = ridge.smaller(net, with { only = { 'shrink' }, bits = false, max_drop = 1,
      widths = { 0.5 }, test = test, epochs = 3, trained = 7,
      train = function(_, n) epochs[#epochs + 1] = n end })
    assert.same({ 3, 3, 10 }, epochs) -- chosen, drawn, from the start
    assert.equal(32, q[1].n_out)
    assert.equal('units and weights that were drawn', found.controls[1].name)
    assert.equal('the small shape from the start, 10 epochs', found.controls[2].name)
    local opts = { input = inputs(1, 6), seed = 1 }
    local drawn = versions.structure(net, found.chosen, opts, 'random')
    local pair = accuracy.pair(drawn, q, test, 'x')
    assert.same(pair, found.controls[1].accuracy)
    assert.is_true(found.controls[2].accuracy.original.share < 0.7) -- it has learned nothing here
    local claims = found:claims()
    assert.same({ 1, 'half of the units: 2 times as fast' }, { #claims, claims[1].claim })
  end)

  it('says of claims what their whole interval says', function()
    local function rows(p, original)
      local first = { structure = 'dense', bits = 'f32', mb = 8, stored_mb = 8 }
      for name, value in pairs(original or {}) do first[name] = value end
      local said = {}
      for i, row in ipairs(require('ridge.smaller.claims').rows { first, p }) do
        said[i] = row.claim .. ': ' .. row.found .. ': ' .. row.verdict
      end
      return said
    end
    local function static(lo, hi, drop_lo, drop_hi, mb)
      return rows { structure = 'dense', bits = 'static', mb = mb, stored_mb = mb, speedup = lo,
        speedup_lo = lo, speedup_hi = hi, drop = drop_lo, drop_lo = drop_lo, drop_hi = drop_hi }
    end
    assert.same({ 'i8 static: 3 to 4 times as fast: 3.00 [3.00, 3.50]: holds',
      'i8 static: 4 to 5 times less memory: 4.00: holds',
      'i8 static: 50 to 75 % less size: 75.0 %: holds',
      'i8 static: less than 1 % of accuracy: -0.10 % [-0.90, -0.10]: holds' },
      static(3, 3.5, 0.001, 0.009, 2))
    assert.same({ 'i8 static: 3 to 4 times as fast: 2.90 [2.90, 3.10]: open',
      'i8 static: 4 to 5 times less memory: 1.60: does not hold',
      'i8 static: 50 to 75 % less size: 37.5 %: does not hold',
      'i8 static: less than 1 % of accuracy: -0.50 % [-1.20, -0.50]: open' },
      static(2.9, 3.1, 0.005, 0.012, 5))
    assert.matches('does not hold', static(2, 2.9, 0.011, 0.02, 5)[1])
    assert.matches('%[%-2.00, %-1.10%]: does not hold', static(2, 2.9, 0.011, 0.02, 5)[4])
  end)

  it('is the best so far when its budget ends, and after Ctrl-C', function()
    local q, found = ridge.smaller(net, with { budget = 1e-9, bits = { 'w4' } })
    assert.equal('budget', found.ended)
    assert.same({ 1, nil }, { #found.points, found.chosen })
    assert.same(net(inputs(3, 7)):tolist(), q(inputs(3, 7)):tolist())
    q, found = stopping_after(2, ridge.smaller, net, with { max_drop = 1, bits = { 'w4', 'w2' },
      test = test })
    assert.equal('interrupted', found.ended)
    assert.same({ 2, '4 bits' }, { #found.points, found.chosen.net })
    assert.equal(100, found.test.n)
    assert.matches('interrupted: this is the best so far', tostring(found))
    assert.is_truthy(q._quant)
  end)

  it('says what is impossible, and goes on', function()
    local conv = nn.Sequential(nn.Conv2d(1, 4, 3, { seed = 1 }), nn.Flatten(),
      nn.Linear(16, 4, { seed = 2 })):eval()
    local x = ridge.randn(40, 1, 4, 4, { generator = ridge.generator(8) })
    local own = loader(x, conv(x):argmax(2))
    local _, found = ridge.smaller(conv, with { validate = own, only = { 'prune' }, bits = false,
      patterns = { '2:7' } })
    assert.matches('2:7 infeasible: prune.magnitude: no layer is left', tostring(found))
  end)

  it('refuses what it cannot take, at the line of the call', function()
    local next_batch = validate:each()
    local function once() return next_batch end -- rows that come one time
    for pattern, opts in pairs {
      ["option only has 'qaunt'; it has some of quant, prune, shrink"] = { only = { 'qaunt' } },
      ["there is no kind 'w5' in bits; known: bf16"] = { bits = { 'w5' } },
      ["bits = 'static' needs option calibrate"] = { bits = { 'static' } },
      ["option widths is of 'shrink', which is not in only"] = { widths = { 0.5 } },
      ['option sparsities is a share of the weights.*got 70'] = { only = { 'prune' }, bits = false,
        sparsities = { 70 } },
      ['200 of the 200 rows of test are rows of the validation data'] = { test = validate },
      ["budget: 'soon' is no duration"] = { budget = 'soon' },
      ['option train is function'] = { train = 3 },
      ["only: a list of names is expected, and 'quant' is no place"] = { only = { quant = true } },
      ["sparsities: a list of numbers is expected, and 'a' is"] = { only = { 'prune' },
        bits = false, sparsities = { a = 1 } },
      ['smaller: validate has no batch'] = { validate = { each = once } },
      ['option progress is a function, got 3'] = { progress = 3 },
    } do
      assert.matches('smaller_spec.lua:%d+: .*' .. pattern, failure(function()
        ridge.smaller(net, with(opts))
      end))
    end
    assert.matches('the net is in training mode', failure(ridge.smaller, net:clone():train(),
      with()))
    -- what train raises is its caller's, and no property of a net
    assert.matches('out of patience', failure(ridge.smaller, net, with { only = { 'shrink' },
      bits = false, widths = { 0.5 }, train = function() error 'out of patience' end }))
  end)
end)

describe('a search for a smaller net that was ended', function()
  local folders = dofile 'tests/lua/store/folder.lua'
  local folder = folders.new()
  teardown(function() folders.remove(folder) end)

  local looks, last
  local plugged = { each = function()
    looks = looks + 1
    if looks == last then error 'the plug' end
    return validate:each()
  end }

  local function search(more)
    looks = 0
    local opts = { validate = plugged, bits = { 'w8' }, only = { 'quant', 'prune' },
      patterns = { 'block' }, sparsities = { 0.5 }, max_drop = 0.9, looks = 1,
      folder = folder .. '/kept' }
    for name, value in pairs(more or {}) do opts[name] = value or nil end
    return ridge.smaller(net, opts)
  end

  -- What does not hang on a clock.
  local function rows(found)
    local list = {}
    for i, p in ipairs(found.points) do
      list[i] = { p.net, p.drop, p.mb, p.changed, p.kl, p.within, p.why or '' }
    end
    return list
  end

  local function kept_files()
    local pipe = io.popen(("find '%s' -type f | wc -l"):format(folder))
    local n = tonumber(pipe:read '*a')
    pipe:close()
    return n
  end

  -- Whether blocks are stored as blocks is measured, on a net as small as this one now so, now so.
  local function same_rows(found)
    local list = rows(found)
    for _, row in ipairs(list) do
      if row[1] == 'block 50 %' then
        -- all weights, or half of them and where they are
        assert.is_true(row[3] == list[1][3] or row[3] > list[1][3] / 2 and row[3] < list[1][3])
        row[3] = 'by what was measured'
        row[5] = ('%.4g'):format(row[5]) -- sums in another order
      end
    end
    return list
  end

  it('goes on with what was measured and the best so far, to the same nets', function()
    last = nil
    local _, found = search { folder = false }
    local whole, wanted = looks, same_rows(found)
    for _, at in ipairs { whole - 1, whole + 1 } do -- behind the original; in the last net
      last = at
      local ok = pcall(search)
      assert.is_false(ok, ('%d of %d looks: %d'):format(at, whole, looks))
      assert.is_true(kept_files() > 0)
      last = nil
      local q, again = search()
      assert.same(wanted, same_rows(again))
      assert.equal(whole + 1 - (at - 4), looks) -- three for what is asked, and what was not known
      assert.matches('went on in .*, where %d+ nets were measured', tostring(again))
      -- the chosen one is the net that was measured, whether it is of this call or of before
      assert.equal(again.chosen.mb, held.bytes(q).mb)
      local pair = accuracy.pair(net, q, validate, 'x')
      assert.same({ -pair.difference.share, pair.kl }, { again.chosen.drop, again.chosen.kl })
      assert.equal(0, kept_files())
    end
  end)

  it('makes the best anew where it has no file, and is another one with other options', function()
    last = nil
    local _, found = stopping_after(2, search)
    assert.equal('interrupted', found.ended)
    local n, told = #found.points, {}
    os.execute(("find '%s' -name '*.safetensors' -delete"):format(folder))
    local q, other = stopping_after(0, search, { progress = function(text)
      told[#told + 1] = text
    end })
    assert.equal(('%d nets were measured before, in %s/kept: going on'):format(n, folder), told[1])
    assert.equal(n, #other.points)
    assert.matches('was made and measured once more: it has no file', tostring(other))
    assert.equal(other.chosen.mb, held.bytes(q).mb)
    _, other = stopping_after(0, search, { max_drop = 0.8 })
    assert.matches('began anew: searches in .* are of another options', tostring(other))
  end)
end)
