-- SPDX-License-Identifier: MIT
-- A stored sweep as event files of TensorBoard, read back by another implementation.

local folders = dofile 'tests/lua/store/folder.lua'
local read = dofile 'tests/lua/tensorboard/read.lua'

local RECIPE = [[
require('ridge').sweep 'tb' {
  space = { width = { 1, 2 }, kind = { 'a', 'b' }, on = { true } }, protocol = 'quick',
  setup = function() return require('ridge').ones(4) end,
  measure = function(p, x, m)
    if p.width == 2 and p.kind == 'b' then error('not this one') end
    m:time('fwd', function() return x + 1 end)
    m:metric('error', p.width / 4)
    m:curve('loss', { { step = 1, seconds = 1, loss = 4 }, { step = 5, seconds = 2.5,
      loss = p.width }, { step = 6, seconds = 3, loss = 0 / 0 } })
  end }:run { calibrate = false, progress = 'off' }]]

describe('ridge export --as tensorboard', function()
  local folder, db, said, status

  local function ridge(words)
    return folders.run(('RIDGE_DB=%s ./ridge %s'):format(db, words))
  end

  -- The values of the one event file of a run.
  local function values_of(run)
    local list = io.popen(('ls %s/%s/events.*'):format(folder .. '/runs', run))
    local path = list:read '*l'
    assert.is_nil(list:read '*l')
    list:close()
    return read.values(path)
  end

  local function by_tag(values)
    local out = {}
    for _, v in ipairs(values) do
      out[v.tag] = out[v.tag] or {}
      table.insert(out[v.tag], v)
    end
    return out
  end

  setup(function()
    folder = folders.new()
    db = folder .. '/s.db'
    local file = io.open(folder .. '/tb.lua', 'w')
    file:write(RECIPE)
    file:close()
    ridge(folder .. '/tb.lua')
    said, status = ridge(('export tb --as tensorboard -o %s/runs'):format(folder))
  end)
  teardown(function() folders.remove(folder) end)

  it('says what it wrote', function()
    assert.equal(0, status, said)
    assert.matches('runs: 4 points, [1-5] pictures; tensorboard %-%-logdir ', said)
  end)

  it('has a run for each point, with its parameters, numbers, curve and samples', function()
    local tags = by_tag(values_of 'point-1')
    local plugin = read.fields(read.fields(tags['_hparams_/session_start_info'][1].fields[9][1])
      [1][1])
    local start, params = read.fields(read.fields(plugin[2][1])[3][1]), {}
    for _, entry in ipairs(start[1]) do
      local e = read.fields(entry)
      params[e[1][1]] = read.fields(e[2][1])
    end
    assert.equal('point-1', start[4][1])
    assert.same({ 1 }, params.on[4])
    assert.is_truthy(params.width[2][1] == 1 or params.width[2][1] == 2)
    assert.equal(params.width[2][1] / 4, tags.error[1].fields[2][1])
    assert.same({ 1, 4, 5, params.width[2][1] }, { tags.loss[1].step, tags.loss[1].fields[2][1],
      tags.loss[2].step, tags.loss[2].fields[2][1] })
    assert.near(1.5, tags.loss[2].at - tags.loss[1].at, 1e-3)
    local nan = tags.loss[3].fields[2][1] -- of a training that diverged
    assert.same({ 3, 6, false }, { #tags.loss, tags.loss[3].step, nan == nan })
    assert.is_true(math.abs(tags.loss[1].at - os.time()) < 3600)
    assert.is_true(tags.fwd[1].fields[2][1] > 0)
    local h = read.fields(tags.fwd_samples[1].fields[5][1])
    assert.is_true(h[3][1] >= tags.fwd_n[1].fields[2][1] and h[1][1] > 0)
    for name in pairs(tags) do assert.is_nil(({ width = 1, trial = 1, began = 1 })[name]) end
  end)

  it('tells a point that failed, which has no numbers', function()
    local failed = 0
    for i = 1, 4 do
      local tags = by_tag(values_of('point-' .. i))
      local plugin = read.fields(read.fields(tags['_hparams_/session_end_info'][1].fields[9][1])
        [1][1])
      if read.fields(read.fields(plugin[2][1])[4][1])[1][1] == 2 then
        failed = failed + 1
        assert.is_nil(tags.fwd)
      end
    end
    assert.equal(1, failed)
  end)

  it('has the experiment and pictures above them', function()
    local tags = by_tag(values_of '.')
    local plugin = read.fields(read.fields(tags['_hparams_/experiment'][1].fields[9][1])[1][1])
    local experiment, values = read.fields(read.fields(plugin[2][1])[2][1]), {}
    for _, info in ipairs(experiment[4]) do
      local p = read.fields(info)
      local list = {}
      for i, value in ipairs(read.fields(p[5][1])[1]) do
        local v = read.fields(value) -- 2: a number, 3: a text, 4: true or false
        list[i] = v[2] and v[2][1] or v[3] and v[3][1] or v[4][1] == 1
      end
      values[p[1][1]] = list
    end
    assert.same({ width = { 1, 2 }, kind = { 'a', 'b' }, on = { true } }, values)
    local metrics = {}
    for _, info in ipairs(experiment[5]) do
      metrics[read.fields(read.fields(info)[1][1])[2][1]] = true
    end
    assert.is_true(metrics.loss and metrics.fwd and metrics.error)
    assert.equal('\137PNG', read.fields(tags.training[1].fields[4][1])[4][1]:sub(1, 4))
  end)

  it('refuses what cannot be, and writes nothing', function()
    local function refused(words, text)
      local out, code = ridge(words)
      assert.equal(1, code)
      assert.matches(text, out, 1, true)
    end
    refused(('export tb --as tensorboard -o %s/runs'):format(folder),
      'point-1 is there already; TensorBoard would show what is in it as well')
    refused('export tb --as tensorboard', '--as tensorboard writes a folder: -o FOLDER')
    refused('export tb --as tensorboard --samples -o x', 'leave --samples out')
    refused(('export tb -o %s'):format(folder), 'cannot be written: it is a folder')
    refused(('export tb --as tensorboard -o %s'):format(db), 'cannot')
  end)
end)
