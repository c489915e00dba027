-- SPDX-License-Identifier: MIT
-- Each layer alone, and bits for each layer: harm, bytes, what may be lost, a budget that ends.
local ridge = require 'ridge'
local held = require 'ridge.quant.held'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function rows(n, seed) return ridge.randn(n, 32, { generator = ridge.generator(seed) }) end

-- The answers of the net itself: every change is a drop. Its first layer barely matters.
local function case()
  local net = nn.Sequential(nn.Linear(32, 64, { seed = 1, activation = 'relu' }),
    nn.Linear(64, 64, { seed = 2, activation = 'relu' }), nn.Linear(64, 4, { seed = 3 })):eval()
  local x = rows(200, 4)
  return net, ridge.data.Loader({ x, net(x):argmax(2) }, { batch = 100, shuffle = false })
end

describe('quant.sensitivity', function()
  local net, validate = case()
  local s = ridge.quant.sensitivity(net, { validate = validate, rows = false,
    kinds = { 'i8', 'w2' } })

  it('sees each layer alone, in each kind', function()
    assert.equal(6, #s.rows)
    local by = {}
    for i, r in ipairs(s.rows) do
      by[r.point] = r
      assert.is_true(i == 1 or s.rows[i - 1].kl >= r.kl)
    end
    for _, at in ipairs { 1, 2, 3 } do
      local skip = {}
      for _, other in ipairs { 1, 2, 3 } do
        if other ~= at then skip[#skip + 1] = tostring(other) end
      end
      local q = ridge.quant.weights(net, { bits = 2, method = 'mse', skip = skip, rows = false })
      local a = require('ridge.quant.accuracy').pair(net, q, validate, 'x')
      local r = by[at .. ' w2']
      assert.equal(a.changed, r.changed)
      assert.near(a.kl, r.kl, 1e-12)
      assert.near(held.bytes(net[at]).mb - held.bytes(q[at]).mb, r.saved_mb, 1e-9)
      assert.is_true(r.kl > by[at .. ' i8'].kl)
    end
  end)

  it('has layers first of which nothing is known but that they make nan', function()
    local four = nn.Sequential(nn.Linear(32, 32, { seed = 1 }), nn.Linear(32, 32, { seed = 2 }),
      nn.Linear(32, 32, { seed = 3 }), nn.Linear(32, 2, { seed = 4 })):eval()
    local data = ridge.data.Loader({ ridge.randn(8, 32), ridge.zeros(8) }, { batch = 8 })
    local accuracy = require 'ridge.quant.accuracy'
    local before, kl, n = accuracy.pair, { 0.1, 0 / 0, 0.3, 0 / 0 }, 0
    accuracy.pair = function(...)
      n = n + 1
      local a = before(...)
      a.kl = kl[n]
      return a
    end
    local ok, said = pcall(ridge.quant.sensitivity, four, { validate = data, rows = false })
    accuracy.pair = before
    assert(ok, said)
    local order = {}
    for i, row in ipairs(said.rows) do order[i] = row.layer end
    assert.same({ '2', '4', '3', '1' }, order)
  end)

  it('is a table and a picture', function()
    assert.matches('layer +type +KL', tostring(s))
    assert.matches('of 200', tostring(s))
    assert.equal('pareto', s:plot().kind)
    assert.matches('plot.pareto: options are a table, got', failure(s.plot, s, ''))
  end)

  it('times layers beside what they were', function()
    local alone = nn.Linear(64, 4, { seed = 1 }):eval()
    local x = ridge.randn(20, 64)
    local one = ridge.quant.sensitivity(alone, { validate = ridge.data.Loader({ x,
      ridge.zeros(20) }, { batch = 20 }) }).rows[1]
    assert.is_true(one.ratio_lo <= one.ratio and one.ratio <= one.ratio_hi)
  end)
end)

describe('quant.search', function()
  local net, validate = case()

  it('takes as few bytes as an accuracy allows', function()
    local strict, found = ridge.quant.search(net, { validate = validate, max_drop = 0 })
    local loose = ridge.quant.search(net, { validate = validate, max_drop = 1 })
    assert.is_true(held.bytes(strict).mb < held.bytes(net).mb)
    assert.is_true(held.bytes(loose).mb < held.bytes(strict).mb)
    local a = require('ridge.quant.accuracy').pair(net, strict, validate, 'x')
    assert.equal(0, a.only_original)
    for _, row in ipairs(ridge.quant.report(loose).layers) do assert.equal('w2', row.kind) end
    local taken, front = 0, 0
    for _, p in ipairs(found.points) do
      if p.taken then taken = taken + 1 end
      if p.front then front = front + 1 end
      assert.equal(p.taken, p.drop <= 0)
    end
    assert.is_true(taken > 0 and front > 0)
    assert.matches('accuracy may drop by 0 %%', tostring(ridge.quant.report(strict)))
    assert.equal('pareto', found:plot().kind)
  end)

  it('tries the least harm for a byte first, whatever its name', function()
    local kinds, saved, wanted, chosen = { 'w2', 'i8' }, {}, {}, {}
    local harm = ridge.quant.sensitivity(net, { validate = validate, rows = false,
      kinds = kinds }).rows
    table.sort(harm, function(a, b) return a.kl / a.saved_mb < b.kl / b.saved_mb end)
    for _, row in ipairs(harm) do
      local name, kind = row.point:match '^(%S+) (%S+)$'
      if row.saved_mb > (saved[name] or 0) then
        saved[name], chosen[name] = row.saved_mb, kind
        wanted[#wanted + 1] = ('1:%s 2:%s 3:%s'):format(chosen['1'] or 'f32', chosen['2'] or 'f32',
          chosen['3'] or 'f32')
      end
    end
    local _, found = ridge.quant.search(net, { validate = validate, max_drop = 1, kinds = kinds })
    local tried = {}
    for i, p in ipairs(found.points) do tried[i] = p.layers end
    assert.same(wanted, tried)
  end)

  it('ends with its budget, with the best so far', function()
    local q, found = ridge.quant.search(net, { validate = validate, budget = 1e-6 })
    assert.is_true(found.ended)
    assert.matches('the budget ended', tostring(ridge.quant.report(q)))
    local x = rows(3, 9)
    assert.same(net(x):tolist(), q(x):tolist())
    -- nothing is rounded any more: calibrate is read for what is refused as a test, and no further
    local read, data = 0, rows(32, 8)
    local calibrate = { each = function()
      read = read + 1
      return ridge.data.Loader({ data }, { batch = 32 }):each()
    end }
    q = ridge.quant.search(net, { validate = validate, budget = 1e-6, calibrate = calibrate })
    assert.equal(2, read)
    for _, row in ipairs(ridge.quant.report(q).layers) do
      assert.same({ 'f32', 'the budget ended before it was tried' }, { row.kind, row.why })
    end
  end)

  it('does not test on what it chose on', function()
    local q = ridge.quant.search(net, { validate = validate, kinds = { 'w8' } })
    assert.matches('rows of test are rows of the validation data',
      failure(ridge.quant.compare, net, q, { shape = { 1, 32 }, test = validate, iterations = 1 }))
    local data = rows(64, 5)
    local calibrate = ridge.data.Loader({ data }, { batch = 16 })
    q = ridge.quant.search(net, { validate = validate, calibrate = calibrate, kinds = { 'w8' } })
    assert.matches('chosen on 200 rows', tostring(ridge.quant.report(q)))
    for _, seen in ipairs { validate,
      ridge.data.Loader({ data, ridge.zeros(64) }, { batch = 16 }) } do
      assert.matches('rows of the validation or calibration data', failure(ridge.quant.compare, net,
        q, { shape = { 1, 32 }, test = seen, iterations = 1 }))
    end
    assert.matches('search_spec.lua:%d+: quant.search: 200 of the 200 rows of calibrate',
      failure(ridge.quant.search, net, { validate = validate, calibrate = validate }))
  end)

  it('looks at test data once, when all is chosen', function()
    local x, looked = rows(50, 77), 0
    local labels = net(x):argmax(2)
    local test = { each = function()
      looked = looked + 1
      return ridge.data.Loader({ x, labels }, { batch = 25 }):each()
    end }
    local q = ridge.quant.search(net, { validate = validate, test = test, kinds = { 'w2' } })
    assert.equal(2, looked) -- for rows that are refused, and for the answers
    local a = require('ridge.quant.accuracy').pair(net, q, test, 'x')
    assert.matches(('on test: accuracy .*%d of 50 answers changed'):format(a.changed),
      tostring(ridge.quant.report(q)))
    local share, lo, hi = tostring(ridge.quant.report(q)):match(
      'on test: accuracy ([%d.]+) %% %[([%d.]+), ([%d.]+)%]')
    assert.near(100 * a.quantized.share, tonumber(share), 0.01)
    assert.near(100 * a.quantized.lo, tonumber(lo), 0.01)
    assert.near(100 * a.quantized.hi, tonumber(hi), 0.01)
    assert.is_true(a.quantized.lo < a.quantized.share) -- so that they can be told apart
    assert.matches('200 of the 200 rows of test are rows of the validation data',
      failure(ridge.quant.search, net, { validate = validate, test = validate }))
  end)

  -- Neither has an option to leave a layer out: what cannot be stays, and the others are looked at.
  it('leaves a layer of which nothing comes in, or always the same, with the reason', function()
    local dead = ridge.nn.Sequential(ridge.nn.Linear(8, 16), ridge.nn.ReLU(),
      ridge.nn.Linear(16, 16), ridge.nn.ReLU(), ridge.nn.Linear(16, 3)):eval()
    ridge.no_grad(function() dead[1].bias:fill_(-1000) end)
    local data = ridge.data.Loader({ ridge.randn(40, 8), ridge.zeros(40):to 'i64' }, { batch = 20 })
    local opts = { validate = data, kinds = { 'i8' }, rows = false,
      calibrate = ridge.data.Loader({ ridge.randn(40, 8) }, { batch = 20 }) }
    local s = ridge.quant.sensitivity(dead, opts)
    assert.matches('\n3 stays f32: everything that came in is 0: a constant has no range$',
      tostring(s))
    assert.equal(2, #s.rows)
    local q = ridge.quant.search(dead, opts)
    assert.matches('\n3: everything that came in is 0: a constant has no range\n',
      tostring(ridge.quant.report(q)))
    -- where that is all, it is the error; and other errors stay errors
    opts.calibrate = ridge.data.Loader({ ridge.randn(40, 8) / 0 }, { batch = 20 })
    for _, f in ipairs { 'search', 'sensitivity' } do
      assert.matches(f .. ': no layer can be in fewer bits %(1: what comes in has nan or inf in it',
        failure(ridge.quant[f], dead, opts))
    end
    opts.calibrate = ridge.data.Loader({ ridge.randn(40, 7) }, { batch = 20 })
    assert.is_false((pcall(ridge.quant.search, dead, opts)))
  end)

  it('says what it cannot', function()
    assert.matches('search_spec.lua:%d+: quant.sensitivity: 200 of the 200 rows of calibrate',
      failure(ridge.quant.sensitivity, net, { validate = validate, calibrate = validate }))
    assert.matches("no kind 'w5'", failure(ridge.quant.search, net,
      { validate = validate, kinds = { 'w5' } }))
    assert.matches('kinds is empty', failure(ridge.quant.sensitivity, net,
      { validate = validate, kinds = {} }))
    assert.matches('no duration', failure(ridge.quant.search, net,
      { validate = validate, budget = 'soon' }))
    assert.matches('option validate is missing', failure(ridge.quant.search, net, {}))
  end)
end)

describe('a search that was ended', function()
  local folders = dofile 'tests/lua/store/folder.lua'
  local folder = folders.new()
  local kept = folder .. '/kept/here'
  teardown(function() folders.remove(folder) end)

  local net = ridge.nn.Sequential(ridge.nn.Linear(32, 48, { seed = 1 }), ridge.nn.ReLU(),
    ridge.nn.Linear(48, 4, { seed = 2 })):eval()
  local x = ridge.randn(60, 32, { generator = ridge.generator(8) })
  local data = ridge.data.Loader({ x, net(x):argmax(2) }, { batch = 30 })

  -- How often the rows were gone through, and when somebody pulls the plug.
  local looks, last
  local loader = { each = function()
    looks = looks + 1
    if looks == last then error 'the plug' end
    return data:each()
  end }

  local function search(over)
    looks = 0
    local opts = { validate = loader, max_drop = 0.02, kinds = { 'w8', 'w3', 'w2' } }
    for key, value in pairs(over or {}) do opts[key] = value end
    return ridge.quant.search(net, opts)
  end

  local function answers(q) return q(x):tolist() end

  local function files()
    local pipe = io.popen(("find '%s' -type f | wc -l"):format(folder))
    local n = tonumber(pipe:read '*a')
    pipe:close()
    return n
  end

  it('goes on from what was known, wherever it ended, to the same net', function()
    last = nil
    local q, found = search()
    local whole = looks
    for at = 3, whole, 2 do
      last = at
      local ok, err = pcall(search, { folder = kept })
      assert.is_false(ok)
      assert.matches('the plug', tostring(err))
      last = nil
      local again, found_again = search { folder = kept }
      assert.equal(tostring(found), tostring(found_again))
      assert.same(answers(q), answers(again))
      -- rows are gone through for the question, not for what was measured before
      local measured = at - 4
      assert.is_true(looks <= whole + 1 - math.max(measured, 0), ('%d: %d looks, then %d')
        :format(whole, at, looks))
      assert.equal(0, files())
    end
  end)

  it('goes on where the budget ended, until all is known', function()
    last = nil
    local wanted = tostring(select(2, search()))
    local _, found = search { folder = kept, budget = 1e-9 }
    assert.is_true(found.ended)
    local q
    q, found = search { folder = kept }
    assert.equal(wanted, tostring(found))
    assert.is_nil(tostring(ridge.quant.report(q)):find('the budget ended', 1, true))
  end)

  it('is another one with other options, and passes over a line that was cut off', function()
    last = 9
    assert.is_false(pcall(search, { folder = kept }))
    last = nil
    local q = search { folder = kept, max_drop = 0.5 }
    assert.matches('began anew: searches in .* are of another options', tostring(
      ridge.quant.report(q)))
    local pipe = io.popen(("ls '%s'/*.search"):format(kept))
    local path = pipe:read '*l'
    pipe:close()
    local text = folders.get(path)
    folders.put(path, text:sub(1, -5))
    q = search { folder = kept }
    local n = tonumber(tostring(ridge.quant.report(q)):match 'where (%d+) results were')
    assert.equal(select(2, text:gsub('\n', '')) - 2, n) -- without the first line and the last
    assert.equal(0, files())
  end)
end)

describe('the journal of a search', function()
  local folders = dofile 'tests/lua/store/folder.lua'
  local journal_of = require 'ridge.quant.journal'
  local folder = folders.new()
  teardown(function() folders.remove(folder) end)

  local function open() return journal_of.open(folder, { what = 'x' }) end

  it('is what was known, line by line, up to one that is damaged', function()
    local j = open()
    j:put('a', { n = 1, kl = math.huge, other = -math.huge, none = 0 / 0, yes = true })
    j:put('b', 2)
    j:close(false)
    local text = folders.get(j.path)
    folders.put(j.path, text:sub(1, -5)) -- the process died in this line
    j = open()
    assert.equal(1, j.before)
    local a = j.known.a
    assert.same({ 1, math.huge, -math.huge, true }, { a.n, a.kl, a.other, a.yes })
    assert.is_true(a.none ~= a.none)
    j:put('c', 3)
    j:close(false)
    j = open()
    assert.same({ 2, nil, 3 }, { j.before, j.known.b, j.known.c })
    j:put('d', 4)
    j:close(false)
    folders.put(j.path, (folders.get(j.path):gsub('"c"', '"c')))
    j = open()
    assert.same({ 1, nil, nil }, { j.before, j.known.c, j.known.d })
    j:close(true)
    assert.is_nil(io.open(j.path))
  end)
end)

describe('a net whose own answers are all nan', function()
  it('is refused where nets are compared on labelled rows: no change would be a drop', function()
    local net, validate = case()
    local broken = net:clone()
    ridge.no_grad(function() broken[3].bias:fill_(0 / 0) end)
    local said = 'the net itself gives nan for each of 200 rows'
    assert.matches(said, failure(ridge.quant.sensitivity, broken, { validate = validate,
      rows = false, kinds = { 'i8' } }), 1, true)
    assert.matches(said, failure(ridge.quant.search, broken, { validate = validate, rows = false }),
      1, true)
    local part = net:clone() -- one class of four: nan in each row as well
    ridge.no_grad(function() part[3].bias[2] = 0 / 0 end)
    assert.matches(said, failure(ridge.quant.search, part, { validate = validate, rows = false }),
      1, true)
  end)
end)
