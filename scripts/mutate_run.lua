-- SPDX-License-Identifier: MIT
-- mutate_run: the program behind scripts/mutate.  It works in build/mutate: `cover` is the copy of
-- the tree that counts lines, `map` what was counted, `tree1` ... the copies mistakes are planted
-- in, `run-SEED-1.tsv` ... what was found; a run that was broken off goes on from there.

local plant = dofile "scripts/mutate_plant.lua"
local map = dofile "scripts/mutate_map.lua"
local judge = dofile "scripts/mutate_judge.lua"

local HELP = [[
usage: scripts/mutate [--seed N] [--count N] [--paths core/graph,lua] [--jobs N] [--keep FILE]
                      [--budget SECONDS] [--longest SECONDS] [--again] [--remap] [--cpu] [--draw]

Plants mutants in C, Lua and CUDA (*.cu, where nvcc is), runs the tests that reach the line, the
cheapest first, until one fails or hangs, and prints the mutants that none of them noticed.
Mutants that do not compile, or compile to the same code, are replaced by others.

--seed    which mutants, 1 unless told; the same again on the same sources
--count   how many, 40 unless told
--paths   files or folders they are planted in; core,lua,gpu unless told
--jobs    how many at a time, each in a copy of its own; 1 unless told
--keep    also write what was found to this file
--budget  seconds of tests one mutant may take, 300 unless told; the rest are not run
--longest tests that took longer than these seconds where lines were counted are left out
--again   try what survived such a run once more, with the tests as they are now
--remap   count again which tests reach which line, after changes of the sources
--cpu     without the simulated GPU, whose build takes minutes
--draw    only print the mutants that would be tried, in their order; nothing is built or run

The exit code is 1 where more than a tenth of the mutants went unnoticed.
]]

local WORK = "build/mutate"
local LANGUAGES = { c = "C", lua = "Lua", cuda = "CUDA" }

local function options_of(words)
  local opt = { seed = 1, count = 40, paths = "core,lua,gpu", jobs = 1, budget = 300,
    longest = 1e9 }
  local i = 1
  while i <= #words do
    local name = words[i]:match "^%-%-(%w+)$"
    if name == "help" then
      io.write(HELP)
      os.exit(0)
    elseif name == "again" or name == "remap" or name == "cpu" or name == "draw" then
      opt[name] = true
    elseif name and words[i + 1] and (opt[name] or name == "keep" or name == "part") then
      i = i + 1
      opt[name] = type(opt[name]) == "number" and tonumber(words[i]) or words[i]
    else
      io.stderr:write("mutate: no option '" .. words[i] .. "'\n" .. HELP)
      os.exit(2)
    end
    i = i + 1
  end
  opt.part = tonumber(opt.part or 1)
  judge.without_gpu = opt.cpu
  return opt
end

local function say(text)
  print(text)
  io.stdout:flush()
end

-- -- Which mutants -------------------------------------------------------------------------------

local BACK_TO = 8 -- lines; a statement is seldom longer

-- The units that reach the place of a mutant.  What continues a statement is reached where that
-- begins; what is in no function, and a file that has changed since, by all that reach the file.
local function reaching(mutant, lines, source, changed)
  if not lines then return {} end
  if not changed and (mutant.language == "lua" or lines[mutant.place]) then
    return lines[mutant.place] or {}
  end
  if not changed then
    local text = {}
    for line in (source .. "\n"):gmatch "(.-)\n" do text[#text + 1] = line end
    for k = mutant.line, math.max(1, mutant.line - BACK_TO), -1 do
      if text[k]:find "^}" then break end
      if lines[k] then return lines[k] end
    end
  end
  local list, seen = {}, {}
  for _, units in pairs(lines) do
    for _, unit in ipairs(units) do
      if not seen[unit] then
        seen[unit] = true
        list[#list + 1] = unit
      end
    end
  end
  return list
end

-- Those that reach much of the file are its tests: they come first, weighed with their seconds.
local function units_for(mutant, lines, source, changed)
  local list = { unpack(reaching(mutant, lines, source, changed)) }
  local most = 1
  for _, unit in ipairs(list) do most = math.max(most, unit.lines[mutant.path] or 0) end
  local function cost(unit)
    local part = (unit.lines[mutant.path] or 0) / most
    local near = mutant.path:find(unit.folder, 1, true) and 0.3 or unit.folder == "gpu"
      and mutant.language ~= "cuda" and 4 or 1
    return (unit.seconds + 0.5) * near / (0.05 + part * part)
  end
  table.sort(list, function(a, b)
    local x, y = cost(a), cost(b)
    return x < y or x == y and a.name < b.name
  end)
  return list
end

-- All mutants of a copy of the tree, by language and kind.
local function pool_of(tree, paths)
  local pool, weight = {}, {}
  for _, path in ipairs(map.lines("git ls-files " .. paths:gsub(",", " "))) do
    local language = plant.language_of(path)
    local source = language and (language ~= "cuda" or judge.has_nvcc())
      and map.read(tree .. "/" .. path)
    if source then
      local kinds = pool[language] or {}
      pool[language] = kinds
      for _, mutant in ipairs(plant.mutants(source, language)) do
        mutant.path, mutant.language = path, language
        kinds[mutant.kind] = kinds[mutant.kind] or {}
        table.insert(kinds[mutant.kind], mutant)
      end
      local _, lines = source:gsub("\n", "")
      weight[language] = (weight[language] or 0) + lines
    end
  end
  return pool, weight
end

-- Draws mutants without end: the languages by their lines, the kinds alike; none twice.
local function drawing(tree, opt)
  local pool, weight = pool_of(tree, opt.paths)
  local total, drawn = 0, {}
  for _, name in ipairs { "c", "cuda", "lua" } do total = total + (weight[name] or 0) end
  if total == 0 then
    io.stderr:write("mutate: there is nothing to plant in " .. opt.paths .. "\n")
    os.exit(2)
  end
  math.randomseed(opt.seed)
  return function()
    for _ = 1, 10000 do
      local at, language = math.random() * total, nil
      for _, name in ipairs { "c", "cuda", "lua" } do
        if not language and weight[name] then
          at = at - weight[name]
          language = at < 0 and name
        end
      end
      local list = language and pool[language][plant.KINDS[math.random(#plant.KINDS)]] or {}
      local mutant = #list > 0 and list[math.random(#list)]
      if mutant and not drawn[mutant] then
        drawn[mutant] = true
        return mutant
      end
    end
  end
end

-- -- What was found ------------------------------------------------------------------------------

local function line_of(text, n)
  for line in (text .. "\n"):gmatch "(.-)\n" do
    n = n - 1
    if n == 0 then return line end
  end
end

local function diff_of(mutant, source)
  local changed = plant.planted(source, mutant)
  return ("%s:%d (%s)\n  -%s\n  +%s"):format(mutant.path, mutant.line, mutant.kind,
    line_of(source, mutant.line), line_of(changed, mutant.line))
end

local UNNOTICED = { survived = true, ["not reached"] = true }
local COUNTED = { caught = true, hung = true, survived = true, ["not reached"] = true }

local function table_of(rows, key, order)
  local out = { "| " .. key .. " | planted | noticed | of these hung | survived | not reached |",
    "|---|---|---|---|---|---|" }
  local all = {}
  for _, name in ipairs(order) do
    local n = { caught = 0, hung = 0, survived = 0, ["not reached"] = 0 }
    for _, row in ipairs(rows) do
      if row[key] == name and n[row.verdict] then n[row.verdict] = n[row.verdict] + 1 end
    end
    for verdict, count in pairs(n) do all[verdict] = (all[verdict] or 0) + count end
    n.name = LANGUAGES[name] or name
    out[#out + 1] = n
  end
  all.name = "all"
  out[#out + 1] = all
  for i = 3, #out do
    local n = out[i]
    local noticed = n.caught + n.hung
    out[i] = ("| %s | %d | %d | %d | %d | %d |"):format(n.name, noticed + n.survived
      + n["not reached"], noticed, n.hung, n.survived, n["not reached"])
  end
  return table.concat(out, "\n")
end

local function report(opt, rows, failed)
  local skipped = { equal = 0, ["not built"] = 0 }
  local survivors = {}
  for _, row in ipairs(rows) do
    if skipped[row.verdict] then skipped[row.verdict] = skipped[row.verdict] + 1 end
    if UNNOTICED[row.verdict] then
      survivors[#survivors + 1] = row.diff .. (row.verdict == "not reached" and
        "\n  no test reaches the line" or row.unit ~= "" and "\n  " .. row.unit or "")
    end
  end
  local text = { table_of(rows, "language", { "c", "lua", "cuda" }), "",
    table_of(rows, "kind", plant.KINDS), "",
    ("%d compiled to the same program and %d did not compile; others took their place."):format(
      skipped.equal, skipped["not built"]), "" }
  if #failed > 0 then
    text[#text + 1] = "Left out, because they fail without a mutant: " .. table.concat(failed, ", ")
    text[#text + 1] = ""
  end
  if #survivors > 0 then
    text[#text + 1] = "What nothing noticed:\n\n```diff\n" .. table.concat(survivors, "\n\n")
      .. "\n```"
  end
  text = table.concat(text, "\n")
  print(text)
  if opt.keep then
    local model = (map.read "/proc/cpuinfo" or ""):match "model name%s*:%s*([^\n]+)" or "unknown"
    map.write(opt.keep, ("# Planted mistakes, and what the tests noticed\n\nCommit %s, %s, "
      .. "seed %d, %d mutants in %s; %s, %s processors.\n\n%s\n"):format(
      map.lines "git rev-parse --short=12 HEAD"[1], os.date "!%Y-%m-%d", opt.seed, opt.count,
      opt.paths, model, map.lines "nproc"[1], text))
  end
  return #survivors
end

-- -- A run ---------------------------------------------------------------------------------------

local FIELDS = { "path", "line", "language", "kind", "from", "to", "text", "verdict", "unit",
  "tried", "diff" }

local function kept(value) return (tostring(value):gsub("[\\\n\t]", { ["\\"] = "\\\\",
  ["\n"] = "\\n", ["\t"] = "\\t" })) end
local BACK = { ["\\\\"] = "\\", ["\\n"] = "\n", ["\\t"] = "\t" }

-- The rows of a run on these very sources; what was found on others is put aside.
local function rows_of(path, key)
  local rows = {}
  local text = map.read(path) or ""
  if text:match "^[^\n]*" ~= key then
    map.write(path, key .. "\n")
    return rows
  end
  for line in text:gmatch "\n([^\n]+)" do
    local row, i = {}, 0
    for word in (line .. "\t"):gmatch "(.-)\t" do
      i = i + 1
      row[FIELDS[i] or i] = word:gsub("\\.", BACK)
    end
    if row.diff then rows[#rows + 1] = row end
  end
  return rows
end

local function line_of_row(row)
  local words = {}
  for k, name in ipairs(FIELDS) do words[k] = kept(row[name]) end
  return table.concat(words, "\t")
end

local function write_rows(path, key, rows)
  local lines = { key }
  for _, row in ipairs(rows) do lines[#lines + 1] = line_of_row(row) end
  map.write(path, table.concat(lines, "\n") .. "\n")
end

local function id_of(mutant)
  return table.concat({ mutant.path, mutant.from, mutant.to, mutant.text }, " ")
end

-- Runs in different folders work beside each other.
local function name_of(opt) return (opt.paths:gsub("%W", "_")) end

local function kept_in(opt, part)
  return ("%s/run-%s-%d-%d.tsv"):format(WORK, name_of(opt), opt.seed, part)
end

local function done_in(opt, part)
  return ("%s/done-%s-%d-%d"):format(WORK, name_of(opt), opt.seed, part)
end

local function work(opt, reached, failed)
  local tree = ("%s/tree-%s-%d"):format(WORK, name_of(opt), opt.part)
  local places = opt.paths:gsub(",", " ")
  local sources = map.lines(("{ git ls-files -s %s; git diff HEAD %s; } | md5sum"):format(places,
    places))[1]:sub(1, 12)
  local key = ("%s seed %d part %d/%d in %s%s"):format(sources, opt.seed, opt.part, opt.jobs,
    opt.paths, opt.cpu and " without the GPU" or "")
  local path = kept_in(opt, opt.part)
  local rows, done, judged = rows_of(path, key), {}, 0
  for k = #rows, 1, -1 do
    local row = rows[k]
    if opt.again and UNNOTICED[row.verdict] then
      table.remove(rows, k)
    else
      done[id_of(row)] = true
      judged = judged + (COUNTED[row.verdict] and 1 or 0)
    end
  end
  if opt.again then write_rows(path, key, rows) end
  judge.copy(tree, "plain")
  map.run("mkdir -p " .. tree .. "/build/tmp")
  local share = math.floor(opt.count / opt.jobs) + (opt.part <= opt.count % opt.jobs and 1 or 0)
  local file = assert(io.open(path, "a"))
  file:setvbuf "line"
  local i = 0
  for mutant in drawing(tree, opt) do
    if judged >= share then break end
    i = i + 1
    if i % opt.jobs == opt.part % opt.jobs and not done[id_of(mutant)] then
      local source = map.read(tree .. "/" .. mutant.path)
      local changed = map.read(WORK .. "/cover.source/" .. mutant.path) ~= source
      local units = units_for(mutant, reached[mutant.path], source, changed)
      for k = #units, 1, -1 do
        if opt.cpu and units[k].folder == "gpu" or units[k].seconds > opt.longest then
          table.remove(units, k)
        end
      end
      local start = map.now()
      mutant.verdict, mutant.unit, mutant.tried = judge.judge(tree, mutant, units,
        opt.budget)
      mutant.diff = diff_of(mutant, source)
      if COUNTED[mutant.verdict] then
        judged = judged + 1
        say(("%d: %s:%d %s: %s %s (%.0f s)"):format(judged, mutant.path, mutant.line, mutant.kind,
          mutant.verdict, mutant.unit, map.now() - start))
        if UNNOTICED[mutant.verdict] then say(mutant.diff) end
      end
      file:write(line_of_row(mutant), "\n")
      rows[#rows + 1] = mutant
    end
  end
  file:close()
  return rows, failed
end

-- To plant by hand: those that do not compile, or to the same program, are among them.
local function print_drawn(opt)
  local n = 0
  for mutant in drawing(".", opt) do
    n = n + 1
    if n > opt.count then break end
    say(n .. ": " .. diff_of(mutant, map.read(mutant.path)))
  end
  return 0
end

local function main(words)
  local opt = options_of(words)
  if opt.draw then return print_drawn(opt) end
  if os.execute "scripts/deps mutate" ~= 0 then os.exit(1) end
  map.run("mkdir -p " .. WORK .. "/map")
  local cover = WORK .. "/cover"
  if opt.remap then map.run("rm -rf " .. WORK .. "/map && mkdir -p " .. WORK .. "/map") end
  if opt.part == 1 and not map.read(WORK .. "/map/whole") then
    if not map.read(cover .. "/build/built") then
      judge.copy(cover, "counting")
      map.write(cover .. "/build/built", "")
    end
    map.keep_code(cover, WORK .. "/map")
    map.count(cover, WORK .. "/map", map.units(cover), 900, say)
    map.write(WORK .. "/map/whole", "")
  elseif opt.part == 1 and judge.tests_into(cover, WORK .. "/map") then
    map.count(cover, WORK .. "/map", map.units(cover), 900, say)
  end
  local reached, failed = map.load(WORK .. "/map", map.units(cover))
  for k = 2, opt.part == 1 and opt.jobs or 1 do
    map.run(("luajit scripts/mutate_run.lua --part %d %s &"):format(k, table.concat(words, " ")))
  end
  local rows = work(opt, reached, failed)
  if opt.part > 1 then
    map.write(done_in(opt, opt.part), "")
    return 0
  end
  for k = 2, opt.jobs do
    while not map.read(done_in(opt, k)) do map.run "sleep 1" end
    os.remove(done_in(opt, k))
    local path = kept_in(opt, k)
    for _, row in ipairs(rows_of(path, map.read(path):match "^[^\n]*")) do
      rows[#rows + 1] = row
    end
  end
  return report(opt, rows, failed) * 10 > opt.count and 1 or 0
end

os.exit(main(arg))
