-- SPDX-License-Identifier: MIT
-- mutate_run: the program behind scripts/mutate.  It works in build/mutate: `cover` is the copy of
-- the tree that counts lines, `map` what was counted, `tree1` ... the copies mistakes are planted
-- in, `run-SEED-1.tsv` ... what was found; a run that was broken off goes on from there.

local plant = dofile "scripts/mutate_plant.lua"
local map = dofile "scripts/mutate_map.lua"
local judge = dofile "scripts/mutate_judge.lua"

local HELP = [[
usage: scripts/mutate [--seed N] [--count N] [--paths core/graph,lua] [--jobs N] [--keep FILE]
                      [--budget SECONDS] [--remap] [--cpu]

Plants mutants in C, Lua and CUDA (*.cu, where nvcc is), runs the tests that reach the line, the
cheapest first, until one fails or hangs, and prints the mutants that none of them noticed.
Mutants that do not compile, or compile to the same code, are replaced by others.

--seed    which mutants, 1 unless told; the same again on the same sources
--count   how many, 40 unless told
--paths   files or folders they are planted in; core,lua,gpu unless told
--jobs    how many at a time, each in a copy of its own; 1 unless told
--keep    also write what was found to this file
--budget  seconds of tests one mutant may take, 300 unless told; the rest are not run
--remap   count again which tests reach which line
--cpu     without the simulated GPU, whose build takes minutes

The exit code is 1 where more than a tenth of the mutants went unnoticed.
]]

local WORK = "build/mutate"
local LANGUAGES = { c = "C", lua = "Lua", cuda = "CUDA" }

local function options_of(words)
  local opt = { seed = 1, count = 40, paths = "core,lua,gpu", jobs = 1, budget = 300 }
  local i = 1
  while i <= #words do
    local name = words[i]:match "^%-%-(%w+)$"
    if name == "help" then
      io.write(HELP)
      os.exit(0)
    elseif name == "remap" or name == "cpu" then
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

-- The units that reach the place of a mutant.  Where a line has no code of its own, or the file has
-- changed since lines were counted, those that reach the file.
local function units_for(mutant, lines, changed)
  local list = not changed and lines and lines[mutant.place]
  if not changed and mutant.language == "lua" then return list or {} end
  if not list and lines then
    local seen = {}
    list = {}
    for _, units in pairs(lines) do
      for _, unit in ipairs(units) do
        if not seen[unit] then
          seen[unit] = true
          list[#list + 1] = unit
        end
      end
    end
  end
  local home = mutant.path:match "^(.*)/"
  local function cost(unit) -- the tests of a folder notice first what is wrong in it
    return unit.seconds * (unit.folder == home and 0.1 or unit.folder == "gpu" and 4 or 1)
  end
  list = { unpack(list or {}) }
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
    if row.verdict == "survived" or row.verdict == "not reached" then
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

local function id_of(mutant)
  return table.concat({ mutant.path, mutant.from, mutant.to, mutant.text }, " ")
end

local function work(opt, reached, failed)
  local tree = WORK .. "/tree" .. opt.part
  local sources = map.lines "{ git ls-files -s; git diff HEAD; } | md5sum"[1]:sub(1, 12)
  local key = ("%s seed %d part %d/%d in %s%s"):format(sources, opt.seed, opt.part, opt.jobs,
    opt.paths, opt.cpu and " without the GPU" or "")
  local path = ("%s/run-%d-%d.tsv"):format(WORK, opt.seed, opt.part)
  local rows, done, judged = rows_of(path, key), {}, 0
  for _, row in ipairs(rows) do
    done[id_of(row)] = true
    judged = judged + (COUNTED[row.verdict] and 1 or 0)
  end
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
      local units = units_for(mutant, reached[mutant.path], changed)
      for k = #units, 1, -1 do
        if opt.cpu and units[k].folder == "gpu" then table.remove(units, k) end
      end
      local start = map.now()
      mutant.verdict, mutant.unit, mutant.tried = judge.judge(tree, mutant, units,
        opt.budget)
      mutant.diff = diff_of(mutant, source)
      if COUNTED[mutant.verdict] then
        judged = judged + 1
        say(("%d: %s:%d %s: %s %s (%.0f s)"):format(judged, mutant.path, mutant.line, mutant.kind,
          mutant.verdict, mutant.unit, map.now() - start))
        if mutant.verdict == "survived" or mutant.verdict == "not reached" then say(mutant.diff) end
      end
      local words = {}
      for k, name in ipairs(FIELDS) do words[k] = kept(mutant[name]) end
      file:write(table.concat(words, "\t"), "\n")
      rows[#rows + 1] = mutant
    end
  end
  file:close()
  return rows, failed
end

local function main(words)
  local opt = options_of(words)
  map.run("mkdir -p " .. WORK .. "/map")
  local cover = WORK .. "/cover"
  if opt.remap then map.run("rm -rf " .. WORK .. "/map && mkdir -p " .. WORK .. "/map") end
  if opt.part == 1 and not map.read(WORK .. "/map/whole") then
    if not map.read(cover .. "/build/built") then
      judge.copy(cover, "counting")
      map.write(cover .. "/build/built", "")
    end
    map.count(cover, WORK .. "/map", map.units(cover), 900, say)
    map.write(WORK .. "/map/whole", "")
  end
  local reached, failed = map.load(WORK .. "/map", map.units(cover))
  for k = 2, opt.part == 1 and opt.jobs or 1 do
    map.run(("luajit scripts/mutate_run.lua --part %d %s &"):format(k, table.concat(words, " ")))
  end
  local rows = work(opt, reached, failed)
  if opt.part > 1 then
    map.write(("%s/done-%d-%d"):format(WORK, opt.seed, opt.part), "")
    return 0
  end
  for k = 2, opt.jobs do
    while not map.read(("%s/done-%d-%d"):format(WORK, opt.seed, k)) do map.run "sleep 1" end
    os.remove(("%s/done-%d-%d"):format(WORK, opt.seed, k))
    local text = map.read(("%s/run-%d-%d.tsv"):format(WORK, opt.seed, k))
    for _, row in ipairs(rows_of(("%s/run-%d-%d.tsv"):format(WORK, opt.seed, k),
      text:match "^[^\n]*")) do
      rows[#rows + 1] = row
    end
  end
  return report(opt, rows, failed) * 10 > opt.count and 1 or 0
end

os.exit(main(arg))
