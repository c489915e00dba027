-- SPDX-License-Identifier: MIT
-- `ridge bench` as a user types it.

local canonical = require 'ridge.store.canonical'
local program = require 'tests.lua.repl.program'

describe('ridge bench', function()
  local folder
  setup(function() folder = program.folder() end)
  teardown(function() program.remove(folder) end)

  local function bench(...)
    local words = { 'bench', '--db', folder .. '/b.db', '--no-calibrate', '--quick', '--iterations',
      '20', '--warmup', '2', ... }
    return program.run(words, { env = 'RIDGE_LOCKS=' .. folder })
  end

  it('prints a table, data on standard output and talk on standard error', function()
    local status, out, err = bench('linear{16,8}', 'lowrank{16,8,k}', '-P', 'batch=1..4*4', '-Pk=2')
    assert.equal(0, status, err)
    assert.truthy(out:find '^model +batch +median')
    for _, word in ipairs { 'lowrank{16,8,k} k=2', 'against linear{16,8}', 'of single calls' } do
      assert.truthy(out:find(word, 1, true), word)
    end
    assert.truthy(err:find '4/4')
  end)

  it('goes on: the same words print the same numbers, and measure nothing', function()
    local words = { 'linear{16,8}', '-P', 'batch=1,2', '--as', 'csv' }
    local _, first = bench(unpack(words))
    local status, again, err = bench(unpack(words))
    assert.equal(0, status)
    assert.equal(first, again)
    assert.truthy(err:find 'all 2 points are measured')
  end)

  it('gives JSON of a stable form, and files', function()
    local status, out = bench('mlp{16,8,4}', '-P', 'batch=2', '--as', 'json', '--samples', '--cold',
      '--out', folder)
    assert.equal(0, status)
    local document = canonical.decode(out)
    assert.same({ 'ridge-bench', 1 }, { document.format, document.version })
    local result = document.results[1]
    assert.same({ 2, 20, 'cold' }, { result.batch_size, #result.samples_ns,
      result.metrics.config.cache })
    local file = assert(io.open(folder .. '/mlp_16_8_4_b2.json'))
    file:close()
  end)

  it('says in a sentence what is wrong, with status 1', function()
    for pattern, words in pairs {
      ["no layer 'lienar' %(did you mean 'linear'"] = { 'lienar{1,2}' },
      ["'w' is no number and no parameter"] = { 'linear{w,2}' },
      ['no model has a parameter w'] = { 'linear{1,2}', '-P', 'w=3' },
      ["'batch' is not like batch=1..256"] = { 'linear{1,2}', '-P', 'batch' },
      ['%-%-precision'] = { 'linear{1,2}', '--precision', '5x' },
      ['a model is missing'] = {},
      ['%-%-param needs a value'] = { 'linear{1,2}', '-P' },
      ["unknown option '%-x'"] = { 'linear{1,2}', '-x' },
      ['1 is less than|no interval'] = { 'linear{1,2}', '--iterations', '1' },
    } do
      local status, out, err = bench(unpack(words))
      assert.equal(1, status, err)
      assert.equal('', out)
      local found = false
      for each in pattern:gmatch '[^|]+' do found = found or err:find(each) ~= nil end
      assert.is_true(found, err)
    end
  end)

  it('ends with 2 when a point failed, and prints the others', function()
    local status, out, err = bench('sequential{linear{8,w},linear{4,2}}', '-P', 'w=4,5', '-P',
      'batch=1', '--as', 'csv')
    assert.equal(2, status)
    assert.equal(2, select(2, out:gsub('\n', '\n')))
    assert.truthy(err:find 'error: .*takes 4 numbers')
  end)

  it('has a help with an example', function()
    local status, out = program.run { 'bench', '--help' }
    assert.equal(0, status)
    assert.truthy(out:find("ridge bench 'linear{1024,4096}' -P batch=1..256*2 --cold", 1, true))
    assert.truthy(out:find '%-P, %-%-param')
  end)
end)
