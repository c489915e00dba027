-- SPDX-License-Identifier: MIT
--- Ranks whose messages wait (tests/dist): transfers are hidden behind the backward pass, and what
--- is timed over them is flagged SIMULATED. Skipped where MPI is not.

local C = require 'ridge.ffi.lib'
local folders = dofile 'tests/lua/store/folder.lua'
local ranks = require 'tests.lua.dist.ranks'

local CHILD = 'tests/lua/dist/slow_child.lua'
local LIBRARY = 'build/tests/libridge_slow.so'

describe('messages that wait', function()
  local folder

  setup(function() folder = folders.new() end)
  teardown(function() folders.remove(folder) end)

  local function several(name, f)
    local file = io.open(LIBRARY, 'rb')
    if file then file:close() end
    if file or not io.open 'build/libridge_mpi.so' then
      ranks.several({ it = it, pending = pending }, name, f)
    else
      pending(name .. ' (make ' .. LIBRARY .. ')', function() end)
    end
  end

  local function slow(words, settings)
    local text, status = ranks.output(('RIDGE_MPI=%s RIDGE_SLOW=%s RIDGE_LOCKS=%s '
      .. 'RIDGE_PROGRESS=off ./ridge %s'):format(LIBRARY, settings or '0,0', folder, words))
    assert.equal(0, status, text)
    return text
  end

  several('take alpha and beta longer, and say that they are SIMULATED', function()
    for n = 2, 3 do
      local text = slow(('launch -n %d %s waits'):format(n, CHILD), '20000,500')
      assert.equal(n, ranks.lines(text, '%] waits true true$'), text)
      assert.equal(1, ranks.lines(text, '%[0%] ridge%.dist: messages are SIMULATED: MPI, 20000 us '
        .. 'a collective and 500 ns a byte: times say nothing of any network$'), text)
    end
  end)

  -- Nothing comes before the last gradient is there: a backward pass that waited for any bucket
  -- would wait for ever.
  several('are hidden behind a backward pass that goes on, and not without overlap', function()
    local text = slow(('launch -n 2 %s hides %s/hold'):format(CHILD, folder),
      ('0,0 RIDGE_SLOW_HOLD=%s/hold'):format(folder))
    -- 6 buckets, all of them sent by then, of which none has come
    assert.equal(2, ranks.lines(text, '%] on 6 6 0 true$'), text)
    assert.equal(2, ranks.lines(text, '%] off 6 0 0 true$'), text)
  end)

  several('flag the rows of a training over them, also where it goes on over others', function()
    local runs = folder .. '/runs'
    local function has(text, ...)
      for _, line in ipairs { ... } do
        assert.equal(1, ranks.lines(text, '^%[0%] ' .. line .. '$'), line .. ' is not in\n' .. text)
      end
    end
    local text = slow(('launch -n 2 %s train %s'):format(CHILD, runs))
    has(text, 'history SIMULATED', 'curve SIMULATED,SIMULATED', 'metrics SIMULATED',
      'summary SIMULATED', 'monitor SIMULATED,SIMULATED,SIMULATED SIMULATED',
      'value SIMULATED,SIMULATED', 'said epoch 1/1  loss .*rows/s, .*  SIMULATED',
      'refused false false')
    assert.equal(4, ranks.lines(text, '%] shown true$'), text)
    assert.matches('SIMULATED', slow('watch --once ' .. runs))
    -- over messages that nobody plays: what was before stays flagged, what follows is not
    local function real(words)
      return (ranks.output(('RIDGE_LOCKS=%s ./ridge %s'):format(folder, words)))
    end
    text = real(('launch -n 2 %s train %s'):format(CHILD, runs))
    has(text, 'history SIMULATED,%-', 'curve %-,%-', 'summary SIMULATED', 'value %-,%-',
      'monitor %-,%-,%- nil', 'said epoch 2/2  loss [^S]*')
    text = real(('launch -n 2 %s train %s/real'):format(CHILD, folder))
    has(text, 'history %-', 'summary nil')
    assert.equal(4, ranks.lines(text, '%] shown false$'), text)
    text = real('watch --once ' .. folder .. '/real')
    assert.matches('step 2', text)
    assert.is_nil(text:find('SIMULATED', 1, true))
  end)

  -- A thread that yields to one that computes stands for a slice of the scheduler and longer; but
  -- ranks that have no processor of their own take it from those who compute.
  several('are asked for without yielding where ranks have processors, whatever Open MPI is told',
    function()
      local processors = tonumber(C.rg_processors())
      for n, yields in pairs { [math.min(2, processors)] = false, [processors + 1] = true } do
        if n <= 8 then
          local text = slow(('launch -n %d %s idle'):format(n, CHILD))
          local unknown = ranks.lines(text, '%] idle unknown$')
          assert.equal(n, ranks.lines(text, ('%%] idle %s$'):format(yields)) + unknown, text)
        end
      end
    end)

  several('flag what is timed over them', function()
    local text = slow('launch -n 2 ' .. CHILD .. ' bench')
    assert.equal(2, ranks.lines(text, '%] bench .*SIMULATED'), text)
    local path = folder .. '/n.db'
    text = slow('net -n 2 --starts 1 --rounds 1 --sizes 4,4096 --db ' .. path)
    assert.equal(1, ranks.lines(text, '^2 .* SIMULATED: it says nothing of any network$'), text)
    text = slow(("query net 'ranks, flags' --as csv --db %s"):format(path))
    assert.matches('\n2,SIMULATED\n', text)
    folders.put(folder .. '/train.lua', [[
local ridge = require 'ridge'
local net = ridge.dist.DataParallel(ridge.nn.Linear(8, 3, { seed = 1 }))
for i = 1, 30 do
  ridge.nn.cross_entropy(net(ridge.randn(4, 8)), ridge.randint(0, 3, 4)):backward()
end]])
    local words = ('scale %s/train.lua --steps 12 --starts 1 --ranks 1,2 --db %s -o %s/s.png')
      :format(folder, path, folder)
    text = slow(words)
    assert.equal(1, ranks.lines(text, '^    2  SIMULATED '), text)
    assert.equal(1, ranks.lines(text, '^    1  measured '), text)
    assert.equal(1, ranks.lines(text, '^SIMULATED: a program plays the network'), text)
    text = slow(("query scale 'ranks, flags' --as csv --db %s"):format(path))
    assert.matches('\n1,SIMULATED\n', text)
    assert.matches('\n2,SIMULATED\n', text)
    -- real steps, predicted by what was found of messages that wait
    text = ranks.output(('RIDGE_LOCKS=%s RIDGE_PROGRESS=off ./ridge %s'):format(folder, words))
    assert.equal(1, ranks.lines(text, '^    2  measured '), text)
    assert.equal(1, ranks.lines(text, '^SIMULATED: a program plays the network'), text)
  end)
end)
