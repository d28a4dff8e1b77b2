await Benchmarks.main()
