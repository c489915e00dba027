-- SPDX-License-Identifier: MIT
-- `ridge smaller` as a user types it: tables, files, statuses, the points as a sweep.

local program = require 'tests.lua.repl.program'

describe('ridge smaller', function()
  local folder
  setup(function() folder = program.folder() end)
  teardown(function() program.remove(folder) end)

  local function run(words) return program.run(words, { env = 'RIDGE_LOCKS=' .. folder }) end

  local function smaller(...)
    return run { 'smaller', '--db', folder .. '/s.db', ... }
  end

  local function recipe(name, text)
    local path = ('%s/%s.lua'):format(folder, name)
    local file = assert(io.open(path, 'w'))
    file:write(text)
    file:close()
    return path
  end

  -- The labels are the net's own answers: fewer bits can only lose.
  local NET = [[
    local ridge = require 'ridge'
    local net = ridge.nn.Sequential(ridge.nn.Linear(32, 64, { seed = 1 }), ridge.nn.ReLU(),
      ridge.nn.Linear(64, 4, { seed = 2 })):eval()
    local function data(seed)
      local x = ridge.randn(100, 32, { generator = ridge.generator(seed) })
      return ridge.data.Loader({ x, net(x):argmax(2) }, { batch = 100 })
    end
    return { net = net, validate = data(3), test = data(4), looks = 1, only = { 'quant' },
      bits = { 'w2' } }
  ]]

  it('prints what is chosen, writes it, keeps the points', function()
    local path, file = recipe('own', NET), folder .. '/net.safetensors'
    local status, out, err = smaller(path, '--max-drop', '5%', '--bits', 'w8,w2', '-o', file,
      '--figure', folder .. '/p.png')
    assert.equal(0, status, err)
    assert.matches('> +8 bits', out)
    assert.matches('On test, 100 rows', out)
    assert.matches('kept as smaller%-own in ', err)
    local text = select(2, run { '-e', ("print(ridge.nn.load('%s'))"):format(file) })
    assert.matches('quant.PackedLinear%(32 %-> 64, 8 bits', text)
    assert.equal('\137PNG', assert(io.open(folder .. '/p.png', 'rb')):read(4))
    status, out = run { 'query', 'smaller-own', 'bits, mb, drop', '--db', folder .. '/s.db', '--as',
      'csv' }
    assert.equal(0, status)
    assert.equal(4, select(2, out:gsub('\n', '\n'))) -- titles, f32 and both
    -- which way is better
    local db, better = require('ridge.store.sqlite').open(folder .. '/s.db', 'read'), {}
    for _, row in ipairs(db:query 'SELECT DISTINCT name, better FROM metric') do
      better[row.name] = tostring(row.better)
    end
    db:close()
    assert.same({ drop = '-1', drop_lo = 'nil', drop_hi = 'nil', changed = 'nil', kl = '-1',
      mb = '-1', stored_mb = '-1', ms = '-1', speedup = '1', speedup_lo = 'nil',
      speedup_hi = 'nil' }, better)
  end)

  it('goes on where it was killed, with the best so far', function()
    -- killed in the sixth pass over its rows, when it has measured the original and one net
    local text = [[
      require 'ffi'.cdef 'int getpid(void);'
      local looks, flag = 0, '%s'
      local made = (function() NET end)()
      local rows = made.validate
      made.validate = { each = function()
        looks = looks + 1
        local at = looks == 6 and io.open(flag)
        if at then os.execute('kill -9 ' .. require 'ffi'.C.getpid()) end
        return rows:each()
      end }
      made.bits = { 'w8', 'w2' }
      return made]]
    local flag = folder .. '/kill'
    local path = recipe('killed', (text:format(flag):gsub('NET', function() return NET end)))
    os.execute(("touch '%s'"):format(flag))
    local status, out, _ = smaller(path, '--max-drop', '5%')
    assert.equal('', out)
    assert.is_true(status ~= 0 and status ~= 2)
    os.remove(flag)
    local err
    status, out, err = smaller(path, '--max-drop', '5%')
    assert.equal(0, status, err)
    assert.matches('2 nets were measured before, in .*s.db.searches/smaller%-killed.*: going on',
      err)
    assert.matches('> +8 bits', out)
    assert.matches('went on in ', out)
    -- and when it has come to its end, it begins anew
    status, _, err = smaller(path, '--max-drop', '5%')
    assert.equal(0, status, err)
    assert.is_nil(err:find('going on', 1, true))
  end)

  it('allows as many rows as the share says', function()
    local path = recipe('share', [[
      require 'ridge.smaller'.smaller = function(_, opts) -- 0.7 / 100 is less than 7 / 1000
        io.stdout:write(opts.max_drop == 7 / 1000 and 'as said' or 'another')
        os.exit(0)
      end
      return { net = 1 }]])
    assert.equal('as said', select(2, smaller(path, '--max-drop', '0.7%')))
  end)

  it('says in a line each what is not written, and why the points are not kept', function()
    local path = recipe('unkept', [[
      require 'ridge.smaller'.smaller = function()
        local function full() error { message = 'no room is left' } end
        return { save = full }, { chosen = true, keep = full, plot = full }
      end
      return { net = 1 }]])
    local status, _, err = smaller(path, '--max-drop', '5%', '-o', folder .. '/none.safetensors',
      '--figure', folder .. '/none.png')
    assert.equal(1, status)
    assert.equal(('ridge smaller: no room is left\n'):rep(3), err)
  end)

  it('has status 2 where nothing is within the drop', function()
    local status, out = smaller(recipe('none', NET), '--max-drop', '0', '--no-keep')
    assert.equal(2, status)
    assert.matches('the net stays as it was', out)
  end)

  it('says in a sentence what is wrong', function()
    local path = recipe('number', 'return 0')
    for _, case in ipairs {
      { { path }, 'returns no table with net and validate' },
      { {}, 'the name of a recipe is missing' },
      { { path, '--max-drop', 'much' }, "%-%-max%-drop: 'much' is not like 0.5%% or 0.005" },
      { { path, '--widths', '0.5,x' }, "%-%-widths: 'x' is no number" },
      { { path, '--budget', 'soon' }, "%-%-budget: 'soon' is no duration" },
      { { path, '--figure', 'x.svg' }, 'must end in .png' },
      -- half a percent, or half of all
      { { path, '--max-drop', '0.5' }, '0.5 has no sign of percent: write 0.5%% or 50%%' },
      { { path, '--max-drop', '2' }, 'write 2%%\n' },
      { { path, '--max-drop', '101' }, "%-%-max%-drop: '101' is not like 0.5%% or 0.005" },
      { { path, '--only', '' }, '%-%-only: nothing is named' },
      { { path, '--only=' }, '%-%-only: nothing is named' },
      { { path, '--only', ',' }, "'' is none of quant, prune, shrink" },
      { { path, '--bits', '' }, '%-%-bits: nothing is named' },
      { { path, '--widths', '' }, '%-%-widths: nothing is named' },
      -- before the recipe is run
      { { recipe('bad', 'error "it ran"'), '--only', 'qaunt' }, "'qaunt' is none of quant, prune" },
    } do
      local status, out, err = smaller(unpack(case[1]))
      assert.equal(1, status, err)
      assert.equal('', out)
      assert.matches(case[2], err)
    end
  end)
end)
