// One call: top-level code would belong to the main actor, and everything here says for itself where it runs.
StarlingCommand.main()
