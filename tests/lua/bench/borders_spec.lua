-- SPDX-License-Identifier: MIT
--- The rules of benchmarks beside the same rules written out plainly: how iterations are cut, which
--- batch has the best throughput, what is held and counted of a model.

local approved = dofile 'tests/lua/approved.lua'
local config = require 'ridge.bench.config'
local layer = require 'ridge.bench.layer'
local metrics = require 'ridge.bench.metrics'
local ridge = require 'ridge'
local subject = require 'ridge.bench.subject'
local throughput = require 'ridge.bench.throughput'
local told = dofile 'tests/lua/told.lua'

local from_one = dofile 'tests/lua/seeded.lua'

-- Whole numbers from 0 to n - 1.
local function seeded(seed)
  local draw = from_one(seed)
  return function(n) return draw(n) - 1 end
end

describe('a configuration', function()
  -- The first of some numbers of parts into which n can be cut, each of `least` to 1000.
  local function cut(n, least, from, to, by)
    for parts = from, to, by or 1 do
      if n % parts == 0 and n / parts >= least and n / parts <= 1000 then return parts end
    end
  end

  it('cuts every number of iterations into equal rounds and passes', function()
    local refused = 0
    local list = {}
    for n = 2, 1300 do list[#list + 1] = n end
    for n = 1999, 30000, 433 do list[#list + 1] = n end
    for _, n in ipairs { 1e6, 999999, 5 * 1009 } do list[#list + 1] = n end
    for _, n in ipairs(list) do
      local rounds = n < 5 and n or cut(n, 1, 5, 1000)
      local ok, p = pcall(config.protocol, { num_iterations = n, warmup_iterations = 7,
        cache = 'cold', seed = 3 })
      if not rounds then
        refused = refused + 1
        assert.equal(('bench: %d iterations cannot be cut into equal rounds; take %d'):format(n,
          math.ceil(n / 1000) * 1000), p.message)
      else
        assert.is_true(ok)
        local passes = cut(n, 2, 5, 12) or cut(n, 2, 4, 1, -1) or cut(n, 2, 13, 1000) or rounds
        assert.same({ 1, n / rounds, rounds, rounds, passes, passes, n / passes, 7, 'cold', 3, 1e-4,
          1e13 }, { p.calls, p.samples, p.min_rounds, p.max_rounds, p.passes, p.max_passes,
          p.windows, p.warm_calls, p.cache, p.seed, p.precision, p.budget_ns }, n)
      end
    end
    assert.is_true(refused > 5)
  end)

  it('has what a protocol says in front of what stands beside it', function()
    local p = config.protocol { protocol = { level = 'quick', seed = 9, cache = 'cold' }, seed = 1,
      cache = 'warm' }
    assert.same({ 9, 'cold', 3 }, { p.seed, p.cache, p.max_rounds })
    p = config.protocol { protocol = 'quick', seed = 4, cache = 'warm' }
    assert.same({ 4, 'warm', 3 }, { p.seed, p.cache, p.max_rounds })
    assert.is_nil(p.warm_calls)
  end)

  it('has the numbers of the document where they are fixed, and says what is wrong', function()
    local c = config.config()
    assert.same({ { 1, 8, 32, 64 }, 'cpu', 1, 'warm', false }, { c.batch_sizes, c.device, c.seed,
      c.cache, c.fixed })
    assert.is_nil(c.num_iterations)
    c = config.config { fixed = true }
    assert.same({ 1000, 100 }, { c.num_iterations, c.protocol.warm_calls })
    c = config.config { fixed = true, num_iterations = 10, warmup_iterations = 0 }
    assert.same({ 10, 0, 2 }, { c.num_iterations, c.protocol.warm_calls, c.protocol.samples })
    for list, said in pairs { [{ 0 }] = 'bench: batch size 0 is not a whole number from 1',
        [{ 1, 1.5 }] = 'bench: batch size 1.5 is not a whole number from 1',
        [{ 'x' }] = 'bench: batch size x is not a whole number from 1',
        [{ 4, 2, 4 }] = 'bench: batch size 4 stands twice',
        [{}] = 'bench: there are no batch sizes' } do
      local ok, err = pcall(config.batches, list)
      assert.same({ false, said, 'EARG' }, { ok, err.message, err.code })
    end
    assert.same({ 3, 1 }, config.batches { 3, 1 })
  end)
end)

describe('the search for the best throughput', function()
  -- What is known of a batch: its time with half-width, its grade, its bytes.
  local function machine(draw)
    local known, at = {}, 0
    return function(best, batch)
      local function result(b)
        known[b] = known[b] or { per = 100 + draw(8), fixed = 1000 * draw(4) }
        local ns = known[b].fixed + known[b].per * b
        local half = draw(5) == 0 and draw(2) * 2 or draw(10) / 100
        return { med = ns, ci_lo = ns * (1 - half), ci_hi = ns * (1 + half),
          grade = draw(12) == 0 and 'D' or 'A' }
      end
      at = at + 1
      if draw(40) == 0 then return { oom = true, message = 'no room' } end
      return { result = result(batch), peak = (batch + 1) * 2 ^ 20 }, best and result(best)
    end
  end

  it('ends where two in a row gain nothing, and counts what noise left open', function()
    local stops = {}
    for seed = 1, 400 do
      local draw = seeded(seed)
      local opt = { min = 1 + draw(3), max = 8 + draw(200), step = draw(2) == 0 and 1 + draw(9)
        or nil, budget = (1 + draw(150)) * 2 ^ 20, least = draw(5) / 100 }
      if draw(3) == 0 then opt.seconds = draw(30) end
      local second = 0
      function opt.now() return second end
      local answer, log = machine(draw), {}
      local found = throughput.search(function(best, batch)
        local made, again = answer(best, batch)
        second = second + 1
        log[#log + 1] = { best = best, batch = batch, made = made, again = again }
        return made, again
      end, opt)
      -- the same, from what was answered
      local best, idle, unsure, highest, stop = nil, 0, 0, nil, nil
      local batch = opt.min
      for i, each in ipairs(log) do
        assert.is_nil(stop, 'seed ' .. seed)
        assert.same({ batch, best }, { each.batch, each.best }, 'seed ' .. seed)
        local made = each.made
        local verdict
        if made.oom or made.peak > opt.budget then
          stop, verdict = 'memory', made.oom and 'oom' or 'over'
        else
          local r, rate = made.result, batch * 1e9 / made.result.med
          local lo = batch * 1e9 / r.ci_hi
          local hi = r.ci_lo > 0 and batch * 1e9 / r.ci_lo or math.huge
          assert.same({ rate, lo, hi }, { made.rate.value, made.rate.lo, made.rate.hi })
          if not highest or rate > highest.rate then highest = { rate = rate, batch = batch } end
          if not best then
            verdict, best = 'first', batch
          else
            local b = each.again
            local b_lo = best * 1e9 / b.ci_hi
            local b_hi = b.ci_lo > 0 and best * 1e9 / b.ci_lo or math.huge
            verdict = lo > b_hi and 'gain' or hi / b_lo - 1 < opt.least and 'none' or 'open'
            if r.grade == 'D' or b.grade == 'D' then verdict = 'disturbed' end
            if verdict == 'gain' then best, idle = batch, 0 end
            if verdict == 'none' then idle = idle + 1 end
            if verdict == 'open' or verdict == 'disturbed' then unsure = unsure + 1 end
            if idle == 2 then stop = 'no gain' end
          end
          if not stop and opt.seconds and i >= opt.seconds then stop = 'time' end
        end
        assert.equal(verdict, found.tries[i].verdict, 'seed ' .. seed)
        if batch >= opt.max then stop = stop or 'max' end
        batch = math.min(opt.step and batch + opt.step or 2 * batch, opt.max)
      end
      assert.same({ stop, best, unsure > 0, #log }, { found.stop, found.best, found.unsure,
        #found.tries }, 'seed ' .. seed)
      assert.equal(highest and highest.batch, found.highest)
      stops[stop] = (stops[stop] or 0) + 1
      local reason = stop == 'memory' and (log[#log].made.oom
          and ('a batch of %d ran out of memory: no room'):format(log[#log].batch)
          or ('a batch of %d needs %d MB, more than %d MB'):format(log[#log].batch,
            log[#log].batch + 1, opt.budget / 2 ^ 20))
        or stop == 'time' and ('%d seconds are over'):format(opt.seconds)
        or stop == 'max' and ('%d is the largest batch that was asked for'):format(opt.max)
      if reason then
        if unsure > 0 then
          reason = ('%s; %d batches were too noisy to tell'):format(reason, unsure)
        end
        assert.equal(reason, found.reason)
      end
    end
    for _, stop in ipairs { 'memory', 'no gain', 'time', 'max' } do
      assert.is_true((stops[stop] or 0) > 5, stop)
    end
  end)
end)

describe('what is measured of a model', function()
  it('is its input, its weights, and what its plan counts', function()
    local net = ridge.nn.Sequential(ridge.nn.Linear(8, 16), ridge.nn.ReLU(), ridge.nn.Linear(16, 4))
    local s = subject.new(net, { batch = 5, seed = 2 })
    assert.same({ 5, 8 }, s.x.shape)
    local want = ridge.randn(5, 8, { generator = ridge.generator(2) })
    assert.equal(0, (s.x - want):abs():max():item())
    local bytes = 4 * (5 * 8 + 8 * 16 + 16 + 16 * 4 + 4)
    assert.is_true(s.held >= bytes)
    assert.equal('f32', s.cost.dtype)
    assert.equal(s.plan:facts().flops, s.cost.flops)
    assert.equal(s.plan:facts().bytes, s.cost.bytes)
    assert.is_nil(s.cost.sign_flops)
    assert.is_true(s.peak >= s.held + 4 * 5 * 16 and s.average >= s.held and s.average <= s.peak)
    assert.same({ 3, 4 }, subject.shape({}, { 3, 4 }))
    assert.same({ 3 }, subject.shape({}, 3))
    assert.same({ 8 }, subject.shape(net, nil))
    assert.equal('f32', subject.dtype(net))
    assert.equal('bf16', subject.dtype(ridge.nn.Linear(4, 4):to 'bf16'))
    assert.equal('f32', subject.dtype(ridge.nn.ReLU()))
    assert.has_error(function() subject.shape(ridge.nn.ReLU(), nil) end)
    assert.has_error(function() subject.new(function(x) return x end, { batch = 2, seed = 1 }) end)
    local f = subject.new(function(x) return x:exp() end, { batch = 2, seed = 1, shape = { 3 } })
    assert.same({ { 2, 3 }, 24 }, { f.x.shape, f.held })
  end)

  it('counts products by fixed signs apart, never more than all', function()
    local sketched = ridge.nn.SKLinear(64, 64, { num_terms = 2, low_rank = 4, warn = false })
    local facts = sketched:facts()
    local s = subject.new(sketched, { batch = 6, seed = 1 })
    assert.is_true(facts.num_terms > 0)
    assert.equal(math.min(2 * 6 * (facts.stored_count - facts.trainable_count), s.cost.flops),
      s.cost.sign_flops)
  end)
end)

describe('the metrics of a point', function()
  it('are those of its entry', function()
    local m = metrics.of { model = 'x', batch = 4, samples = { 3e6, 1e6, 2e6 }, inner = 5,
      ci_lo = 1e6, ci_hi = 4e6, first_ns = 9e6, peak = 8 * 2 ^ 20, average = 6 * 2 ^ 20,
      flops = 4e9, grade = 'B', flags = 'WIDE', stop = 'budget', rounds = 3, warm_calls = 7,
      config = { dtype = 'f32' } }
    assert.same({ 1, 4, 9, 5, 2 }, { m.latency.ci_lo_ms, m.latency.ci_hi_ms, m.latency.first_ms,
      m.latency.calls_per_sample, m.latency.median_ms })
    assert.same({ 2000, 500, 1000, 4000 }, { m.throughput.samples_per_sec,
      m.throughput.batches_per_sec, m.throughput.samples_per_sec_lo,
      m.throughput.samples_per_sec_hi })
    assert.same({ peak_mb = 8, avg_mb = 6, peak_mb_per_sample = 2 }, m.memory)
    assert.same({ batch_size = 4, num_iterations = 15, warmup_iterations = 7, device = 'cpu',
      dtype = 'f32' }, m.config)
    assert.same({ grade = 'B', flags = 'WIDE', rounds = 3, stop = 'budget', gflops = 2000 },
      m.quality)
    assert.is_nil(m.gpu)
    assert.equal(16e9, metrics.throughput(8, 2, 0.5, 4).samples_per_sec_hi)
    m = metrics.of { batch = 1, samples = { 1e6 }, inner = 1, peak = 2 ^ 21, average = 2 ^ 20,
      gpu = { clock_mhz = 5, celsius = 6, watts = 7 }, config = { device = 'cuda:0' } }
    assert.same({ memory_mb = 2, clock_mhz = 5, celsius = 6, watts = 7 }, m.gpu)
    assert.same({ 'cuda:0', '' }, { m.config.device, m.quality.flags })
    assert.is_nil(m.latency.ci_lo_ms or m.latency.first_ms or m.quality.gflops)
  end)
end)

describe('models as text', function()
  it('are read, or refused, as approved', function()
    local function built(text, values)
      local node = layer.parse(text)
      if values then node = layer.with(node, values) end
      local module, n_in = layer.build(node, 1)
      return (tostring(module):gsub('%s+', ' ')), n_in
    end
    local deep = ('sequential{'):rep(19) .. 'linear{1,2}' .. ('}'):rep(19)
    approved.check('bench/models', told.all([[
built 'linear{4,8}'
built 'dense{4,8}'
built ' linear { 4 , 8 } '
built 'linear{n_out=8,n_in=4,bias=false,act=gelu}'
built 'linear{4,8,bias=true,act=none}'
built 'linear{4,8,bias=false,act=gelu}'
built 'lowrank{4,8,2}'
built 'lowrank{4,8,rank=2,act=relu}'
built 'sketched{16,8,2,4}'
built 'sketched{16,8,num_terms=2,low_rank=4,form=stored,bias=false}'
built 'sklinear{16,8,2,4,form=seed}'
built 'mlp{4,8,2}'
built 'mlp{4,8,2,act=tanh,bias=false}'
built 'mlp{4,2}'
built 'sequential{linear{4,8},relu,silu{},linear{8,2}}'
built 'sequential{relu,mlp{4,8},sequential{sigmoid,softplus}}'
built('mlp{w,w,k}', { w = 4, k = 2 })
built('linear{n_in=w,n_out=w}', { w = 4 })
parameters 'sequential{mlp{w,h,w},linear{w,n_out=k},relu}'
parameters 'linear{4,8}'
built 'linear{4}'
built 'linear{4,8,3}'
built 'linear{4,8,n_in=4}'
built 'linear{4,8,bias=1}'
built 'linear{4,8,bias=}'
built 'linear{4,8,act=gelo}'
built 'linear{4,8,acts=gelu}'
built 'linear{4,8,bias=true,bias=true}'
built 'linear{4,0}'
built 'linear{4,1.5}'
built 'linear{4,1099511627777}'
parse('linear{4,1099511627776}').options.n_out
built 'linear{4,8'
built 'linear{4 8}'
built 'linear{4,,8}'
built 'linear 4,8'
built 'linear{4,8}}'
built 'linear'
built ''
built '{}'
built 'liner{4,8}'
built 'lowrank{4,8}'
built 'mlp{4}'
built 'mlp{4,8,rank=2}'
built 'sequential{}'
built 'sequential{relu}'
built 'sequential{linear{4,8},linear{4,2}}'
built 'sequential{linear{4,8},relu,lowrank{9,2,1}}'
built 'relu{4}'
built 'sequential{linear{4,8},act=relu}'
built('linear{w,8}', { v = 4 })
built('linear{w,8}', { w = 1.5 })
built('linear{w,8}', { w = 0 })
built('linear{w,8}', { w = '4' })
built 'linear{w,8}'
#parse(deep).text
#parse('sequential{linear{1,2}' .. (',relu'):rep(40) .. '}')
parse('sequential{' .. deep .. '}')
parse(('x'):rep(4097))
parse(3)
]], { built = built, parse = layer.parse, deep = deep,
      parameters = function(text) return layer.parameters(layer.parse(text)) end }))
  end)
end)
